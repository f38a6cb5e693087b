package search

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/gopercolator/percolator/cmd/webindex/index"
	"github.com/gopercolator/percolator/cmd/webindex/page"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

// changedPage is what changed.html shows: how the index follows a page, and what a search finds,
// both in one snapshot. Its times are commit timestamps.
type changedPage struct {
	*resultsPage
	Stored   string // link
	Document string // link
	Change   string // link
	At       time.Time
	Read     string // how long after it an observer had read the page; "": it has not
	Followed string // how long after it searches found the page so; "": they do not
	Instead  string // URL of a page with the same content, which searches find
	Runs     int64  // of observers, since it was changed here
	Observed []observed
	Waiting  int // cells
}

type observed struct {
	Name string
	Runs int64
}

// Done tells that nothing is left to be seen.
func (p *changedPage) Done() bool { return (p.Followed != "" || p.Instead != "") && p.Waiting == 0 }

func (s *Server) changed(w http.ResponseWriter, r *http.Request) {
	u, query, ok := s.pageOf(w, r)
	if !ok {
		return
	}
	p := &changedPage{resultsPage: &resultsPage{Query: query, Changed: u}, Stored: storedLink(u, query), Document: documentLink(u), Change: s.changeLink(u, query)}
	runs, waiting := s.changes.work() // before the snapshot: what waits then is not seen as done
	err := s.view(r.Context(), func(ctx context.Context, snap *percolator.Snapshot) error {
		at, err := p.readTravel(ctx, snap, u)
		if err != nil {
			return err
		}
		p.count(s.changes.last.Load(), at, runs)
		if p.Waiting = waiting; len(page.Terms(query)) == 0 {
			return nil
		}
		return s.answer(ctx, snap, p.resultsPage, 1)
	})
	switch {
	case errors.Is(err, percolator.ErrNotFound), errors.Is(err, errNoDocument):
		s.notStored(w, u, query)
	case err != nil:
		s.fail(w, r, err)
	default:
		w.Header().Set("Content-Security-Policy", policy+"; script-src 'self'; connect-src 'self'")
		s.show(w, http.StatusOK, "changed.html", p)
	}
}

// readTravel finds out when the page was stored, and how far the index has followed.
func (p *changedPage) readTravel(ctx context.Context, r *percolator.Snapshot, u string) (at tso.Timestamp, err error) {
	capture, err := readCapture(ctx, r, u)
	if err != nil {
		return 0, err
	}
	stored, err := entryIn(ctx, r, index.Digest.Cell(u))
	if err != nil {
		return 0, err
	}
	hash, err := entryIn(ctx, r, index.Hash.Cell(u))
	if err != nil && !errors.Is(err, percolator.ErrNotFound) {
		return 0, err
	}
	served, err := entryIn(ctx, r, index.Served.Cell(u))
	if err != nil && !errors.Is(err, percolator.ErrNotFound) {
		return 0, err
	}
	at, p.At = stored.CommitTS, stored.CommitTS.Time()
	cluster := page.Cluster(capture.Header, capture.Body)
	if string(hash.Value) != cluster {
		return at, nil
	}
	p.Read = after(at, hash.CommitTS)
	canonical, err := index.Canonical.GetOr(ctx, r, cluster, "")
	switch {
	case canonical == u && string(served.Value) == cluster:
		p.Followed = after(at, served.CommitTS)
	case canonical != u && len(served.Value) == 0:
		p.Instead = canonical
	}
	return at, err
}

// after says how long after a change something was committed. What was there before, from an
// earlier version with the same content, took no time.
func after(change, commit tso.Timestamp) string {
	return fmt.Sprintf("%d ms", max(0, commit.Sub(change)).Milliseconds())
}

// count says what observers have done since the last change, if that is the page's.
func (p *changedPage) count(last *change, at tso.Timestamp, runs map[string]int64) {
	if last == nil || last.at != at {
		return
	}
	for name, n := range runs {
		if n -= last.runs[name]; n > 0 {
			p.Observed = append(p.Observed, observed{name, n})
			p.Runs += n
		}
	}
	slices.SortFunc(p.Observed, func(a, b observed) int { return cmp.Compare(a.Name, b.Name) })
}
