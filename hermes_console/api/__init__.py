"""The admin API, `/api/admin/v1`: what the pages show, as JSON for scripts. Session sign-in; errors
are problem+json.

Offsets and every other 64-bit integer are strings. Lists are paged by cursor. The schema is made
from the views.
"""
