from xml.etree import ElementTree

from broker.bench.plot import Series, bars, svg

GROWING = Series("CPU a request", "connections", "µs", ((1, 10), (10, 20), (100, 40)))


def test_a_bar_is_as_long_as_its_share_of_the_largest() -> None:
    head, *lines = bars(GROWING)
    assert head == "CPU a request, µs, by connections"
    assert [line.count("█") for line in lines] == [10, 20, 40]


def test_the_drawing_has_a_point_for_each_value_higher_for_more() -> None:
    root = ElementTree.fromstring(svg([GROWING, GROWING._replace(name="a < b")]))
    circles = [one for one in root if one.tag.endswith("circle")]
    assert len(circles) == 6
    first = [(float(one.attrib["cx"]), float(one.attrib["cy"])) for one in circles[:3]]
    assert first == sorted(first)[:3]
    assert first[0][1] > first[1][1] > first[2][1]
    assert "a < b, µs" in {one.text for one in root}


def test_nothing_but_zeros_can_be_drawn() -> None:
    flat = Series("nothing", "n", "", ((1, 0),))
    assert list(bars(flat))[1].count("█") == 0
    assert ElementTree.fromstring(svg([flat])) is not None
