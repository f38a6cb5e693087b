package record

import (
	"fmt"
	"unicode/utf8"
)

// Limits of sessions.
const (
	MaxSessionIDBytes = 64
	MaxSessionIDs     = 1000 // in one question, and in one removal from a store

	// MaxStoredSessions is how many sessions a store returns: twice as many as a server may have
	// open, because some may be left of a leader that could not remove them.
	MaxStoredSessions = 200_000
)

// IsSessionID reports whether id may be the id of a session.
func IsSessionID(id string) bool {
	return id != "" && len(id) <= MaxSessionIDBytes && utf8.ValidString(id)
}

// checkSessionIDs returns ErrInvalidArgument unless a store may keep ids.
func checkSessionIDs(ids ...string) error {
	if len(ids) > MaxSessionIDs {
		return fmt.Errorf("tso: %w: %d sessions, more than %d", ErrInvalidArgument, len(ids), MaxSessionIDs)
	}
	for _, id := range ids {
		if !IsSessionID(id) {
			return fmt.Errorf("tso: %w: the session %.80q is not 1 to %d bytes of UTF-8",
				ErrInvalidArgument, id, MaxSessionIDBytes)
		}
	}
	return nil
}
