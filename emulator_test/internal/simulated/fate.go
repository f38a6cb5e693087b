package simulated

import (
	"math"
	"time"

	"github.com/gopercolator/percolator/percolator/model"
)

// fate is what becomes of one request.
type fate struct {
	out, back time.Duration // until it arrives, and from then on until its answer does

	lost   bool          // it is not applied when it should be
	later  time.Duration // after this time it is applied, once more unless it is lost; 0: it is not
	failed error         // in place of an answer
	silent bool          // no answer comes: the caller waits until its context ends
}

// fate decides what becomes of a request that is sent now.
func (r *request) fate(mutates bool) (f fate) {
	c := r.conn.cluster
	f.out, f.back = c.latency(r.hash)
	if lacks := r.conn.lacks.Load(); lacks != nil && *lacks == r.table.name {
		f.lost, f.failed = true, unavailable("the table cannot be reached")
		return f
	}
	if c.faults.rates.Load() == nil {
		return f
	}
	if f.failed = c.overloaded(r.hash); f.failed != nil {
		f.lost = r.hash.with(overloadMark).below(appliedOf) > 0
		return f
	}
	if r.conn.swallows(r.hash) {
		f.lost, f.silent = r.hash.with(silentMark)&2 == 0, true
		return f
	}
	f.out += c.queued() + r.slow
	left := time.Until(r.deadline)
	if c.faults.strikes(SlowDisk, r.hash) {
		f.out = r.hash.with(slowMark).spread(left)
	}
	if r.answersSlowly() {
		f.back = r.hash.with(answerMark).spread(left - f.out)
	}
	switch {
	case c.faults.strikes(RequestLost, r.hash):
		f.lost = true
		f.noAnswer(r.hash, unavailable("the connection is lost"))
	case c.faults.strikes(ErrorBefore, r.hash):
		f.lost, f.failed = true, anyError(r.hash)
	case mutates && c.faults.decides(Late, r.hash):
		f.lost, f.later = true, r.hash.with(lateMark).spread(left)
		f.noAnswer(r.hash, openError(r.hash))
	case c.faults.strikes(AnswerLost, r.hash):
		f.noAnswer(r.hash, openError(r.hash))
	case mutates && c.faults.strikes(ErrorAfter, r.hash):
		f.failed = openError(r.hash)
	}
	if mutates && !f.lost && c.faults.decides(Duplicate, r.hash) {
		f.later = f.out + r.hash.with(lateMark).spread(left-f.out)
	}
	r.conn.reset(&f)
	return f
}

// knowledgeAnswers is by how much oftener answers of the table percolator_meta are slow than
// others: few requests go there, and all knowledge comes with their answers.
const knowledgeAnswers = 16

func (r *request) answersSlowly() bool {
	rolls := 1
	if r.table.name == model.MetaTable {
		rolls = knowledgeAnswers
	}
	for h := r.hash; rolls > 0; rolls-- {
		if r.conn.cluster.faults.strikes(SlowAnswer, h) {
			return true
		}
		h = h.with(answerMark)
	}
	return false
}

// noAnswer lets the caller wait, or gives it an error.
func (f *fate) noAnswer(h hash, err error) {
	if f.silent = h.with(silentMark)&1 == 0; !f.silent {
		f.failed = err
	}
}

// spread is a duration up to d, as often within the first part of it as anywhere.
func (h hash) spread(d time.Duration) time.Duration {
	share := h.float()
	if h.with(spreadMark)&1 == 0 {
		share = math.Pow(share, 6)
	}
	return 1 + time.Duration(share*float64(max(d-1, 0)))
}
