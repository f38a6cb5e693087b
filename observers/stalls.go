package observers

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/internal/engine/telemetry"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

// sayStallAfter is for how long the store or the oracle does not answer before a worker says so.
const sayStallAfter = 5 * time.Second

// sayStallEvery is how often a worker says the same, of cells that wait while others do not.
const sayStallEvery = 30 * time.Second

// stalls are what keeps runs from finishing, by its cause: a worker says it once, however many
// cells wait, and once when it is over.
type stalls struct {
	mu   sync.Mutex
	of   map[string]*stall
	n    atomic.Int32         // of them
	said map[string]time.Time // when each was said last; causes are few
}

type stall struct {
	since   time.Time
	runners map[*runner]bool // that wait for it
	said    bool
}

// silence is the cause that no answer comes. It has many errors.
const silence = ""

// stallOf is what err, which says nothing about cell or observer, waits for.
func stallOf(err error) string {
	if errors.Is(err, tso.ErrUnavailable) || errors.Is(err, tso.ErrNotLeader) || errors.Is(err, percolator.ErrOutcomeUnknown) {
		return silence
	}
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.Internal, codes.Aborted, codes.ResourceExhausted:
		return silence
	}
	switch cause := telemetry.Cause(err); cause {
	case "timeout", "canceled", "closed":
		return silence
	default:
		return cause
	}
}

// add notes that runs of rn, of which one began then, wait for something. It reports whether that
// is to be said.
func (s *stalls) add(what string, rn *runner, began time.Time) (say bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.of[what]
	if st == nil {
		st = &stall{since: began, runners: map[*runner]bool{}}
		if s.of == nil {
			s.of, s.said = map[string]*stall{}, map[string]time.Time{}
		}
		s.of[what] = st
		s.n.Add(1)
	}
	st.runners[rn] = true
	if last, before := s.said[what]; before && time.Since(last) < sayStallEvery {
		return false
	}
	if say = !st.said && (what != silence || time.Since(st.since) >= sayStallAfter); say {
		st.said, s.said[what] = true, time.Now()
	}
	return say
}

// end notes that a run of rn has finished. It returns since when what is over has lasted,
// of what has been said.
func (s *stalls) end(rn *runner) (over []time.Time) {
	if s.n.Load() == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for what, st := range s.of {
		if delete(st.runners, rn); len(st.runners) > 0 {
			continue
		}
		if st.said {
			over = append(over, st.since)
		}
		delete(s.of, what)
		s.n.Add(-1)
	}
	return over
}

// stalled logs that a run cannot finish, by no fault of its cell or its observer.
func (w *Worker) stalled(r *run, err error) {
	what, rn := stallOf(err), r.runner
	if !w.stalls.add(what, rn, r.at.began()) {
		return
	}
	queued, running := w.queue.sizes()
	w.log.Warn("observers: runs cannot finish, and are repeated", "cause", telemetry.Cause(err),
		"observer", rn.name, "table", rn.table, "column", rn.column, "queued", queued, "running", running)
}

// finishes notes that an attempt of rn has finished.
func (w *Worker) finishes(rn *runner) {
	for _, since := range w.stalls.end(rn) {
		w.log.Info("observers: runs finish again", "after", time.Since(since).Round(time.Second))
	}
}
