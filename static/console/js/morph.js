// Makes an element's children those of a piece of HTML while keeping every node that can stay: focus, selection, an open
// <details> and the scroll position survive. Rows are matched by data-key, everything else by position and name.

export function morph(target, html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  const focused = document.activeElement;
  morphChildren(target, template.content);
  // A node that is moved (a row that changed its rank) loses the focus.
  if (focused !== document.activeElement && target.contains(focused)) focused.focus({ preventScroll: true });
}

function morphChildren(target, source) {
  const keyed = new Map();
  for (const child of target.children) if (child.dataset?.key !== undefined) keyed.set(child.dataset.key, child);
  let current = target.firstChild;
  for (const wanted of [...source.childNodes]) {
    const key = wanted.dataset?.key;
    const match = key === undefined ? current : keyed.get(key);
    if (match && isSameKind(match, wanted) && match.dataset?.key === key) {
      if (match !== current) target.insertBefore(match, current);
      else current = current.nextSibling;
      morphNode(match, wanted);
    } else {
      target.insertBefore(wanted, current);
    }
  }
  while (current) {
    const next = current.nextSibling;
    current.remove();
    current = next;
  }
}

function isSameKind(one, other) {
  return one.nodeType === other.nodeType && one.nodeName === other.nodeName;
}

function morphNode(node, wanted) {
  if (node.nodeType !== Node.ELEMENT_NODE) {
    if (node.nodeValue !== wanted.nodeValue) node.nodeValue = wanted.nodeValue;
    return;
  }
  for (const { name, value } of wanted.attributes) if (node.getAttribute(name) !== value) node.setAttribute(name, value);
  for (const { name } of [...node.attributes]) {
    if (!wanted.hasAttribute(name) && name !== "open") node.removeAttribute(name);
  }
  morphChildren(node, wanted);
}
