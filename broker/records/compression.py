"""The five compression codecs of record batches, with bounded decompression.

Not here: batch layout. Whatever the bytes, `decompress` returns at most `size_max` bytes or raises
Refusal, and never allocates much more than that (a bomb is refused while it unpacks). Snappy is
read in the framing that Java writes (xerial: magic, two int32, then int32-sized raw blocks) and as
one raw block; it is written in Java's framing.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import Final

import cramjam
import lz4.frame
import zstandard

from broker.errors import ErrorCode, Refusal
from broker.ports import Buffer

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
"""By codec id, the names of `compression.type`."""
CODEC_IDS: Final = {name: number for number, name in enumerate(CODECS)}

XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
_BLOCK_SIZE: Final = Struct(">i")
_ZSTD_WINDOW_BYTES_MAX: Final = 128 * 1024 * 1024
_GZIP_WINDOW_BITS: Final = 31


def compress(codec: int, payload: Buffer) -> bytes:
    """`payload` in the codec's wire form. `codec` is 0 to 4."""
    return _COMPRESSORS[codec](payload)


def decompress(codec: int, compressed: Buffer, size_max: int) -> bytes:
    """The unpacked bytes, at most `size_max` of them.

    Raises Refusal: MESSAGE_TOO_LARGE when more would come out, CORRUPT_MESSAGE when the bytes are
    damaged, UNSUPPORTED_COMPRESSION_TYPE when `codec` is unknown.
    """
    if not 0 <= codec < len(CODECS):
        raise Refusal(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"compression codec {codec} is unknown"
        )
    try:
        unpacked = _DECOMPRESSORS[codec](compressed, size_max)
    except _DAMAGE as damage:
        raise Refusal(
            ErrorCode.CORRUPT_MESSAGE, f"the batch is not valid {CODECS[codec]}: {damage}"
        ) from damage
    if len(unpacked) > size_max:
        raise _too_large(size_max)
    return unpacked


def _too_large(size_max: int) -> Refusal:
    return Refusal(ErrorCode.MESSAGE_TOO_LARGE, f"the batch unpacks to more than {size_max} bytes")


def _compress_gzip(payload: Buffer) -> bytes:
    packer = zlib.compressobj(wbits=_GZIP_WINDOW_BITS)
    return packer.compress(payload) + packer.flush()


def _compress_snappy(payload: Buffer) -> bytes:
    packed = bytearray(_XERIAL_HEADER)
    with memoryview(payload) as view:
        for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
            block = bytes(
                cramjam.snappy.compress_raw(bytes(view[start : start + _XERIAL_BLOCK_BYTES]))
            )
            packed += _BLOCK_SIZE.pack(len(block))
            packed += block
    return bytes(packed)


def _compress_lz4(payload: Buffer) -> bytes:
    # Java's clients and broker refuse frames whose blocks build on each other (LZ4 frame format,
    # "Block Independence flag"; KafkaLZ4BlockInputStream).
    framed: bytes = lz4.frame.compress(payload, block_linked=False)
    return framed


def _compress_zstd(payload: Buffer) -> bytes:
    return zstandard.ZstdCompressor().compress(payload)


def _decompress_none(compressed: Buffer, size_max: int) -> bytes:
    return bytes(memoryview(compressed)[: size_max + 1])


def _decompress_gzip(compressed: Buffer, size_max: int) -> bytes:
    unpacked = bytearray()
    rest: Buffer = compressed
    while rest:
        unpacker = zlib.decompressobj(wbits=_GZIP_WINDOW_BITS)
        unpacked += unpacker.decompress(rest, size_max + 1 - len(unpacked))
        if len(unpacked) > size_max:
            raise _too_large(size_max)
        if not unpacker.eof:
            raise ValueError("the stream ends early")
        rest = unpacker.unused_data
    return bytes(unpacked)


def _decompress_snappy(compressed: Buffer, size_max: int) -> bytes:
    packed = bytes(compressed)
    if not packed.startswith(XERIAL_MAGIC):
        return _decompress_snappy_block(packed, size_max)
    unpacked = bytearray()
    position = len(_XERIAL_HEADER)
    while position < len(packed):
        (size,) = _BLOCK_SIZE.unpack_from(packed, position)
        position += _BLOCK_SIZE.size
        if size <= 0 or size > len(packed) - position:
            raise ValueError(f"a block of {size} bytes does not fit")
        unpacked += _decompress_snappy_block(
            packed[position : position + size], size_max - len(unpacked)
        )
        position += size
    return bytes(unpacked)


def _decompress_snappy_block(packed: bytes, size_max: int) -> bytes:
    if cramjam.snappy.decompress_raw_len(packed) > size_max:
        raise _too_large(size_max)
    return bytes(cramjam.snappy.decompress_raw(packed))


def _decompress_lz4(compressed: Buffer, size_max: int) -> bytes:
    unpacked = bytearray()
    rest: Buffer = compressed
    while rest:
        unpacker = lz4.frame.LZ4FrameDecompressor()
        unpacked += unpacker.decompress(rest, max_length=size_max + 1 - len(unpacked))
        if len(unpacked) > size_max:
            raise _too_large(size_max)
        if not unpacker.eof:
            raise ValueError("the frame ends early")
        rest = unpacker.unused_data or b""
    return bytes(unpacked)


def _decompress_zstd(compressed: Buffer, size_max: int) -> bytes:
    unpacker = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES_MAX)
    with unpacker.stream_reader(compressed, read_across_frames=True) as reader:
        return reader.read(size_max + 1)


_DAMAGE: Final = (
    ValueError,
    RuntimeError,
    zlib.error,
    zstandard.ZstdError,
    cramjam.DecompressionError,
    MemoryError,
    OverflowError,
    EOFError,
    StructError,
)

_COMPRESSORS: Final[tuple[Callable[[Buffer], bytes], ...]] = (
    bytes,
    _compress_gzip,
    _compress_snappy,
    _compress_lz4,
    _compress_zstd,
)
_DECOMPRESSORS: Final[tuple[Callable[[Buffer, int], bytes], ...]] = (
    _decompress_none,
    _decompress_gzip,
    _decompress_snappy,
    _decompress_lz4,
    _decompress_zstd,
)
