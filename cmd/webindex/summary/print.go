package summary

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/gopercolator/percolator/internal/text"
)

// WriteJSON writes the summary as one line of JSON. The lines of several inputs follow each other.
func (s *Summary) WriteJSON(w io.Writer) error {
	return json.NewEncoder(w).Encode(s)
}

// WriteText writes the summary as a table.
func (s *Summary) WriteText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(t, "%s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	if s.Input != "" {
		line("input", "%s", text.Line(s.Input))
	}
	if l := s.Loaded; l != (Loaded{}) {
		line("pages", "%d (%d changed, %d unchanged)", l.Pages, l.Changed, l.Unchanged)
		if l.Earlier > 0 {
			line("loaded earlier", "%d of the pages, by a load that was interrupted", l.Earlier)
		}
		if l.Superseded+l.Skipped+l.Bad > 0 {
			line("left out", "%d superseded, %d skipped, %d bad", l.Superseded, l.Skipped, l.Bad)
		}
	}
	if i := s.Stored; i != nil {
		line("documents", "%d in %d clusters, %d canonical", i.Documents, i.Clusters, i.Canonical)
		line("links", "%d, and %d redirects", i.Links, i.Redirects)
	}
	if o := s.Worked; o.ObserverRuns > 0 || o.Parked > 0 {
		line("observer runs", "%d%s", o.ObserverRuns, byName(o.Observers))
		if o.Parked > 0 {
			line("parked", "%d cells whose observer keeps failing", o.Parked)
		}
	}
	line("transactions", "%d, %d conflicts%s", s.Transactions, s.Conflicts, perSecond(s.Transactions, s.Seconds))
	line("notifications", "%d", s.Notifications)
	line("requests", "%d%s", s.Requests.Total, byName(s.Requests.ByKind))
	if s.Requests.PerPage > 0 {
		line("requests per page", "%.1f", s.Requests.PerPage)
	}
	line("seconds", "%.2f", s.Seconds)
	if l := s.Latency; l.Pages > 0 {
		line("load to searchable", "p50 %.0f ms, p95 %.0f ms (%d pages)", l.P50, l.P95, l.Pages)
	}
	if v := s.Verified; v != nil {
		line("differences", "%d (verified in %.2f s)", v.Differences, v.VerifySeconds)
	}
	if d := s.Deleted; d != nil {
		line("deleted", "%d pages, %d not found", d.Deleted, d.Missing)
	}
	return t.Flush()
}

// byName lists counters, largest first, without the zeros.
func byName(counts map[string]int64) string {
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), strings.Compare(a, b))
	})
	var parts []string
	for _, name := range names {
		if counts[name] != 0 {
			parts = append(parts, fmt.Sprintf("%s %d", name, counts[name]))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

func perSecond(n int64, seconds float64) string {
	if seconds <= 0 || n == 0 {
		return ""
	}
	return fmt.Sprintf(" (%.0f/s)", float64(n)/seconds)
}
