package observers

import (
	"context"
	"math/bits"
	"slices"
	"time"
)

// run is what a goroutine does with a slot of an observer: a turn, or those of a batch, in as many
// transactions as it takes. Each part of it is one transaction's.
type run struct {
	lane   *lane
	part   []turn   // under way
	parts  [][]turn // still to come, the next one last
	halves bool     // a part has failed and was cut up
	until  time.Time
}

func newRun(tn turn) *run {
	part := tn.batch
	if part == nil {
		part = []turn{tn}
	}
	timeouts := bits.Len(uint(len(part))) + 1 // each part that holds one hanging cell, and one more
	return &run{lane: tn.lane, parts: [][]turn{part}, until: time.Now().Add(time.Duration(timeouts) * tn.lane.timeout)}
}

// next takes up the next part.
func (r *run) next() bool {
	last := len(r.parts) - 1
	if last < 0 {
		return false
	}
	r.part, r.parts = r.parts[last], r.parts[:last]
	return true
}

// all gives every turn of the part the same outcome.
func (r *run) all(out outcome) []outcome { return slices.Repeat([]outcome{out}, len(r.part)) }

// perform runs the parts of r. It reports whether the store did not answer the last of them. ctx
// ends when the worker stops, runs when it has drained: what is left of a batch then is for others.
func (w *Worker) perform(ctx, runs context.Context, r *run) (blameless bool) {
	for first := !r.halves; r.next(); first = false {
		switch {
		case !first && ctx.Err() != nil:
			w.putBack(r.part, outcome{blameless: true})
		case !first && time.Now().After(r.until):
			w.putBack(r.part, outcome{alone: true, due: time.Now()})
		default:
			blameless = w.endPart(runs, r, w.runPart(runs, r))
		}
	}
	return blameless
}

// putBack ends turns that were not tried.
func (w *Worker) putBack(turns []turn, out outcome) {
	for _, tn := range turns {
		w.queue.finish(tn, out)
	}
}

// end ends turns of which each, or the transaction of all, had the outcome.
func (w *Worker) end(ctx context.Context, out outcome, turns ...turn) {
	for _, tn := range turns {
		w.queue.finish(tn, w.record(ctx, tn, out))
	}
}

// endPart ends the turns of the part that are over. If it has failed it is cut up, unless it is one
// cell, or the store is to blame.
func (w *Worker) endPart(ctx context.Context, r *run, outs []outcome) (blameless bool) {
	var unread, failed []turn
	var failure outcome
	counted := false
	for i, tn := range r.part {
		out := outs[i]
		if (out.committed || out.contended) && !counted { // one transaction, whatever its cells
			w.queue.mu.Lock()
			r.lane.count(out)
			w.queue.mu.Unlock()
			counted = true
		}
		out.counted = true
		switch {
		case out.unread:
			unread = append(unread, tn)
		case out.start == 0 && !out.parked && !out.dropped:
			failed, failure = append(failed, tn), out
		default:
			w.end(ctx, out, tn)
		}
	}
	if len(unread) > 0 {
		r.parts = append(r.parts, unread)
	}
	switch {
	case len(failed) <= 1:
		w.end(ctx, failure, failed...)
	case failure.snoozed:
		failure.due = time.Now().Add(failure.pause)
		w.end(ctx, failure, failed...)
	case failure.blameless:
		failure.due = time.Now().Add(w.queue.sharedPause(failed))
		w.end(ctx, failure, failed...)
	default:
		r.halves = true
		r.parts = append(r.parts, cutUp(failed, failure.undecodable)...)
	}
	return failure.blameless
}

// cutUp divides the turns of a part that has failed: in halves, or so that each of the bad ones is
// alone. The last one runs first.
func cutUp(turns []turn, bad []int) (parts [][]turn) {
	if len(bad) == 0 {
		half := len(turns) / 2
		return [][]turn{turns[half:], turns[:half]}
	}
	var rest []turn
	for i := range turns {
		if slices.Contains(bad, i) {
			parts = append(parts, turns[i:i+1])
		} else {
			rest = append(rest, turns[i])
		}
	}
	if len(rest) > 0 {
		parts = append(parts, rest)
	}
	return parts
}
