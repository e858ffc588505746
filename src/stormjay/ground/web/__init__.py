"""The HTTP side of the ground floor: application, errors, tokens, health, live events and the API's own description."""
