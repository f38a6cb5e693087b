package layout

import (
	"strings"
)

const AckPrefix = Reserved + "ack\x00"

// AckColumn is the acknowledgment column of an observer: c:ack_O of Figure 5, in the row of the
// observed cell.
func AckColumn(column, observer string) string {
	return AckPrefix + observer + "\x00" + column
}

// Acknowledged tells of which column a reserved column is an acknowledgment.
func Acknowledged(column string) (of string, ok bool) {
	rest, ok := strings.CutPrefix(column, AckPrefix)
	if !ok {
		return "", false
	}
	_, of, ok = strings.Cut(rest, "\x00")
	return of, ok
}

// TracePrefix begins the columns under which the erasure of weak notifications leaves its traces.
// They are rollback markers, at a timestamp that was taken after the runs had committed; a marker
// changes nothing, and the collector removes it when it is at or below the mark.
const TracePrefix = Reserved + "weak\x00"
