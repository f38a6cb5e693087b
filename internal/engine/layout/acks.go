package layout

import "strings"

// AckPrefix begins the acknowledgment columns.
const AckPrefix = Reserved + "ack\x00"

// AckColumn is the acknowledgment column of an observer: c:ack_O of Figure 5, in the row of the
// observed cell.
func AckColumn(column, observer string) string {
	return AckPrefix + observer + "\x00" + column
}

// Acknowledged is the inverse of AckColumn.
func Acknowledged(column string) (of, observer string, ok bool) {
	rest, ok := strings.CutPrefix(column, AckPrefix)
	if !ok {
		return "", "", false
	}
	observer, of, ok = strings.Cut(rest, "\x00")
	return of, observer, ok && observer != "" && of != ""
}

// TracePrefix begins the columns that record the erasure of weak notifications. A trace is a
// rollback marker at a timestamp taken after the runs had committed. A marker changes nothing, and
// the collector removes it once it is at or below the GC watermark.
const TracePrefix = Reserved + "weak\x00"

// IsTrace reports whether a column holds a trace.
func IsTrace(column string) bool { return strings.HasPrefix(column, TracePrefix) }
