"""The console's icons: strokes on a 16 × 16 grid, drawn for it. An icon never stands alone: a word
says the same.
"""

from __future__ import annotations

from typing import Final

ICONS: Final[dict[str, str]] = {
    "api": '<path d="M5.5 4 2 8l3.5 4M10.5 4 14 8l-3.5 4"/>',
    "book": (
        '<path d="M3 3.5h4a1 1 0 0 1 1 1V13a1.5 1.5 0 0 0-1.5-1H3zM13 3.5H9a1 1 0 0 0-1'
        ' 1V13a1.5 1.5 0 0 1 1.5-1H13z"/>'
    ),
    "broker": (
        '<rect x="2.5" y="3" width="11" height="4" rx="1"/>'
        '<rect x="2.5" y="9" width="11" height="4" rx="1"/>'
        '<path d="M5 5h.01M5 11h.01"/>'
    ),
    "check": '<circle cx="8" cy="8" r="5.75"/><path d="m5.5 8.2 1.8 1.8 3.3-3.7"/>',
    "chart": '<path d="M2.5 2.5v11h11"/><path d="m5 10 2.5-3 2 1.5L13 4.5"/>',
    "chevron": '<path d="m6 4 4 4-4 4"/>',
    "clock": '<circle cx="8" cy="8" r="5.75"/><path d="M8 4.8V8l2.2 1.6"/>',
    "cluster": (
        '<circle cx="8" cy="3.5" r="1.75"/>'
        '<circle cx="3.5" cy="12" r="1.75"/>'
        '<circle cx="12.5" cy="12" r="1.75"/>'
        '<path d="M7.2 5.1 4.3 10.4M8.8 5.1l2.9 5.3M5.3 12h5.4"/>'
    ),
    "copy": (
        '<rect x="5.5" y="5.5" width="8" height="8" rx="1"/>'
        '<path d="M10.5 5.5v-2a1 1 0 0 0-1-1h-6a1 1 0 0 0-1 1v6a1 1 0 0 0 1 1h2"/>'
    ),
    "down": '<path d="M8 3v10M4 9l4 4 4-4"/>',
    "empty": (
        '<path d="M2.5 9 4.3 3.5h7.4L13.5 9v3.5h-11z"/><path d="M2.5 9h3.3l.9 1.5h2.6l.9-1.5h3.3"/>'
    ),
    "falling-behind": '<path d="m2.5 4.5 4 4 2-2 5 5"/><path d="M13.5 7.5v4h-4"/>',
    "fine": '<circle cx="8" cy="8" r="5.75"/><path d="m5.5 8.2 1.8 1.8 3.3-3.7"/>',
    "gauge": (
        '<path d="M2.8 11.5a5.75 5.75 0 1 1 10.4 0"/>'
        '<path d="m8 9.5 2.4-3"/>'
        '<path d="M7 9.8a1 1 0 1 0 2 0 1 1 0 0 0-2 0"/>'
    ),
    "groups": (
        '<circle cx="6" cy="5.5" r="2.25"/>'
        '<path d="M2 13c0-2.4 1.7-4 4-4s4 1.6 4 4"/>'
        '<path d="M10.5 3.4a2.2 2.2 0 0 1 0 4.2M11.8 9.4c1.4.6 2.2 1.9 2.2 3.6"/>'
    ),
    "keyboard": (
        '<rect x="1.5" y="4" width="13" height="8.5" rx="1"/>'
        '<path d="M4 7h.01M6.7 7h.01M9.3 7h.01M12 7h.01M5 10h6"/>'
    ),
    "key": '<circle cx="5.5" cy="10.5" r="2.75"/><path d="m7.5 8.5 5-5M10.5 5.5l1.8 1.8"/>',
    "download": '<path d="M8 2.5v7.5M4.8 7 8 10.2 11.2 7M2.5 13.5h11"/>',
    "menu": '<path d="M2.5 4.5h11M2.5 8h11M2.5 11.5h11"/>',
    "messages": (
        '<rect x="2" y="3.5" width="12" height="9" rx="1.5"/><path d="m2.5 5 5.5 4 5.5-4"/>'
    ),
    "moon": '<path d="M13 9.6A5.5 5.5 0 0 1 6.4 3a5.5 5.5 0 1 0 6.6 6.6z"/>',
    "pause": '<path d="M5.5 3.5v9M10.5 3.5v9"/>',
    "play": '<path d="m5 3.5 7.5 4.5L5 12.5z"/>',
    "rewound": '<path d="M3 8a5 5 0 1 0 1.6-3.7L3 5.8"/><path d="M3 2.8v3h3"/>',
    "search": '<circle cx="7" cy="7" r="4.25"/><path d="m10.3 10.3 3.2 3.2"/>',
    "sign-out": '<path d="M9.5 3H4v10h5.5M7 8h6.5M11 5.5 13.5 8 11 10.5"/>',
    "stalled": '<circle cx="8" cy="8" r="5.75"/><path d="M6.4 5.8v4.4M9.6 5.8v4.4"/>',
    "stopped": '<circle cx="8" cy="8" r="5.75"/><rect x="6" y="6" width="4" height="4"/>',
    "sun": (
        '<circle cx="8" cy="8" r="2.75"/>'
        '<path d="M8 1.5v1.3M8 13.2v1.3M1.5 8h1.3M13.2 8h1.3M3.4 3.4l.9.9M11.7 11.7l.9.9M3.4'
        ' 12.6l.9-.9M11.7 4.3l.9-.9"/>'
    ),
    "system": '<rect x="2" y="3" width="12" height="8" rx="1"/><path d="M6 13.5h4"/>',
    "topics": ('<path d="M2.5 4.5h8M2.5 8h11M2.5 11.5h6"/><path d="M13.5 4.5h.01M11.5 11.5h.01"/>'),
    "unknown": (
        '<circle cx="8" cy="8" r="5.75"/>'
        '<path d="M6.3 6.3a1.75 1.75 0 1 1 2.5 1.6c-.5.3-.8.6-.8 1.2M8 11.1h.01"/>'
    ),
    "up": '<path d="M8 13V3M4 7l4-4 4 4"/>',
    "user": '<circle cx="8" cy="5.5" r="2.5"/><path d="M3 13.5c0-2.7 2-4.5 5-4.5s5 1.8 5 4.5"/>',
    "warning": '<path d="M8 2.5 14 13H2z"/><path d="M8 6.5v3M8 11.3h.01"/>',
}
