package console

import (
	"context"
	"time"

	"github.com/gopercolator/percolator/internal/health"
)

// publish makes a snapshot of what is known and tells those who wait for it. That of a hurried poll
// is no sample unless one is due: the samples that are kept are those of [History].
func (p *poller) publish(turn int64, hurried bool) {
	own := p.src.own()
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	next := &snapshot{Seq: 1, Turn: turn, At: now, State: p.state}
	if p.latest != nil {
		next.Seq = p.latest.Seq + 1
		// The process stood still, so the charts have a gap.
		if now.Sub(p.latest.At) > 3*(max(p.interval, idleInterval)+pollTimeout) {
			p.history.add(unknown(next.Seq, p.latest.At.Add(p.interval)))
			next.Seq++
		}
	}
	if !p.watched(pageLocks) {
		next.State.Locks.Failed = nil // no one asks any more, so it may be over
	}
	if !p.watched(pageJournal) {
		next.State.Journal.Failed = nil
	}
	next.State.Processes.Value = withOwn(own, p.state.Processes.Value)
	next.State.Own = own.Client
	s := p.sample(next)
	if next.Samples = p.history.last(); !hurried || len(next.Samples) == 0 || now.Sub(next.Samples[len(next.Samples)-1].At) >= p.interval {
		p.history.add(s)
		next.Samples = p.history.last()
	}
	p.latest = next
	close(p.changed)
	p.changed = make(chan struct{})
}

// sample computes the newest point of every series. The caller holds mu.
func (p *poller) sample(next *snapshot) sample {
	st := &next.State
	s := unknown(next.Seq, next.At)
	p.rates.process(st.Processes.Value)
	p.rates.oracle(st.Oracle.Value, st.Oracle.At)
	p.rates.sample(&s)
	if st.Pending.Known() && st.Pending.Failed == nil {
		found, at := st.Pending.Value, st.now(st.Pending.At)
		expired, _ := found.standing(at, 1)
		s.Values[waiting], s.Values[parkedCells], s.Values[expiredLocks] = float64(found.Waiting), float64(found.AllParked.Cells), float64(expired)
		s.Values[waitingAge] = max(since(at, found.Oldest), health.OldestReported(st.Processes.Value)).Seconds()
	}
	return s
}

// next waits for a snapshot that will do, until ctx ends, and returns the newest in any case; nil:
// there is none.
func (p *poller) next(ctx context.Context, willDo func(*snapshot) bool) (*snapshot, error) {
	for {
		p.mu.Lock()
		latest, changed := p.latest, p.changed
		p.mu.Unlock()
		if latest != nil && willDo(latest) {
			return latest, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return latest, ctx.Err()
		case <-p.lifetime.Done():
			return latest, context.Canceled
		}
	}
}

// fresh returns a snapshot that is good enough for a page that is loaded now; nil if nothing could
// be learned in time.
func (p *poller) fresh(ctx context.Context, page string) *snapshot {
	p.mu.Lock()
	old := p.latest == nil || time.Since(p.latest.At) > 2*(p.interval+pollTimeout)
	for _, probe := range p.probes {
		if probe.page == page && !p.watched(page) {
			old, probe.due = true, time.Time{}
		}
	}
	latest := p.latest
	p.look(page)
	turn := p.turn
	p.mu.Unlock()
	if !old {
		return latest
	}
	return p.hurry(ctx, turn)
}

// renew has every source asked again now, and waits for it: something was changed.
func (p *poller) renew(ctx context.Context, page string) {
	p.mu.Lock()
	for _, probe := range p.probes {
		probe.due, probe.outdated = time.Time{}, probe.busy
	}
	p.look(page)
	turn := p.turn
	p.mu.Unlock()
	p.hurry(ctx, turn)
}

// hurry has the next poll begin now and waits for what it finds, but not for long.
func (p *poller) hurry(ctx context.Context, turn int64) *snapshot {
	p.mu.Lock()
	p.hurried = true
	p.mu.Unlock()
	p.stir()
	ctx, cancel := context.WithTimeout(ctx, 2*pollTimeout)
	defer cancel()
	// Without a new snapshot in time the present one serves.
	found, _ := p.next(ctx, func(s *snapshot) bool { return s.Turn > turn })
	return found
}
