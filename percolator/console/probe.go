package console

import (
	"context"
	"time"

	"github.com/gopercolator/percolator/observers/exportqueue"
	"github.com/gopercolator/percolator/percolator/model"
)

// requestLimit bounds what one source may take.
const requestLimit = 10 * time.Second

// probe asks one source, at its own pace and never twice at once.
type probe struct {
	every time.Duration // at least so long between two attempts
	page  string        // asked only while this page is looked at; "": always
	walks bool          // it reads as much as there is, such as all of the journal
	ask   func(ctx context.Context) (store func(*state))

	due   time.Time
	began time.Time // the last attempt
	busy  bool
	// outdated: something was changed while it was busy, so its answer may be from before.
	outdated bool
}

// newProbe makes a probe that stores what read returns in one part of the state.
func newProbe[T any](every time.Duration, page string, read func(context.Context) (T, error), part func(*state) *reading[T]) *probe {
	return &probe{every: every, page: page, ask: func(ctx context.Context) func(*state) {
		value, err := read(ctx)
		at := time.Now()
		return func(st *state) { *part(st) = part(st).renewed(value, at, err) }
	}}
}

// next is when the source may be asked again. A walk over tables may take a twentieth of the time.
// A source of a row or two is asked at its usual pace even after a failure, so that the end of an
// outage shows soon.
func (p *probe) next(began, ended time.Time) time.Time {
	if p.walks {
		return began.Add(max(p.every, 20*ended.Sub(began)))
	}
	return began.Add(p.every)
}

// walkLimit bounds what a walk over the journal, or over whole tables, may take.
const walkLimit = time.Minute

func (p *probe) limit() time.Duration {
	if p.walks {
		return walkLimit
	}
	return requestLimit
}

// walking is a probe that reads as much as there is.
func walking(p *probe) *probe {
	p.walks = true
	return p
}

func newProbes(src source, interval time.Duration) []*probe {
	return []*probe{
		newProbe(interval, "", src.oracle, func(st *state) *reading[[]oracleServer] { return &st.Oracle }),
		newProbe(2*interval, "", src.Reports, func(st *state) *reading[[]model.Report] { return &st.Processes }),
		newProbe(3*interval, "", src.Workers, func(st *state) *reading[model.Workers] { return &st.Workers }),
		newProbe(3*interval, "", src.storage, func(st *state) *reading[storage] { return &st.Storage }),
		walking(newProbe(5*interval, "", src.pending, func(st *state) *reading[pending] { return &st.Pending })),
		walking(newProbe(5*interval, "", src.letters, func(st *state) *reading[[]exportqueue.DeadLetterCount] { return &st.Letters })),
		walking(newProbe(3*interval, pageJournal, src.journal, func(st *state) *reading[journalState] { return &st.Journal })),
		walking(newProbe(3*interval, pageLocks, src.locks, func(st *state) *reading[lockList] { return &st.Locks })),
	}
}
