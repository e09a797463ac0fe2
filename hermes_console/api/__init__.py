"""The admin API, `/api/admin/v1`: what the pages show and do, as JSON for scripts. An API token, or
a session with its CSRF token; errors are problem+json.

Offsets and every other 64-bit integer are strings. Lists are paged by cursor. The schema is made
from the views.
"""
