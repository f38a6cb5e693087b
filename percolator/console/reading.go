package console

import (
	"time"

	"github.com/gopercolator/percolator/internal/health"
	"github.com/gopercolator/percolator/observers/exportqueue"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// reading is the last answer of a source. When the source fails, its last answer stays, with its
// time.
type reading[T any] struct {
	Value  T
	At     time.Time // of Value; zero: it has never answered
	Failed error     // of the last attempt; nil: it answered
}

// Known tells whether there is a value, however old.
func (r reading[T]) Known() bool { return !r.At.IsZero() }

// renewed is the reading after one more attempt.
func (r reading[T]) renewed(value T, at time.Time, err error) reading[T] {
	if err != nil {
		r.Failed = err
		return r
	}
	return reading[T]{Value: value, At: at}
}

// state is everything that the poll knows.
type state struct {
	Own       string // this process's client
	Processes reading[[]model.Report]
	Workers   reading[model.Workers]
	Storage   reading[storage]
	Pending   reading[pending]
	Letters   reading[[]exportqueue.DeadLetterCount]
	Oracle    reading[[]oracleServer]
	Locks     reading[lockList]
	Journal   reading[journalState]
}

// now is the present by the oracle's clock, which stamps cells; by the local one until that is
// known.
func (st *state) now(local time.Time) time.Time {
	if !st.Workers.Known() {
		return local
	}
	return st.Workers.Value.Now.Time().Add(local.Sub(st.Workers.At))
}

// storage is how far collection has come and what holds it back.
type storage struct {
	admin.Collection

	Holds     []model.Hold
	announced tso.Timestamp // the safepoint
	watermark tso.Timestamp // nothing newer has been removed
	retention time.Duration // of this client
}

// health is what is judged of it.
func (s storage) health(now tso.Timestamp) health.Collection {
	c := health.Collection{Now: now, Safepoint: s.announced, Watermark: s.watermark, Retention: s.retention, Corrupt: s.Corrupt}
	for _, h := range s.Holds {
		if h.Expires > now && (c.HeldBy == nil || h.Timestamp < c.HeldBy.Timestamp) {
			c.HeldBy = &h
		}
	}
	return c
}

// oracleServer is what a server of the oracle says about itself.
type oracleServer struct {
	health.OracleServer     // what of it is judged
	Leader, Server, Version string
	Epoch, Record           int64
	HighWater               tso.Timestamp
	Served                  int64
}

// Running maps the names of the live workers to their versions.
func (st *state) Running() map[string]string {
	running := map[string]string{}
	for _, w := range st.workers() {
		running[w.Name] = w.Version
	}
	return running
}

// clients are the clients that report, and this process's.
func (st *state) clients() []client { return clientsOf(st.Processes.Value) }
