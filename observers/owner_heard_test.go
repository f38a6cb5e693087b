package observers_test

import (
	"context"
	"encoding/binary"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/percolatortest"
	"github.com/gopercolator/percolator/tso"
	"github.com/gopercolator/percolator/tso/coordination"
)

// unhearing hears nothing, without being told that there is nothing to hear.
type unhearing struct{ *tso.Server }

func (o unhearing) TakeHints(ctx context.Context, _ []uint64, _ int, wait time.Duration) ([]coordination.Hint, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(wait + time.Millisecond):
		return nil, nil
	}
}

func (p *pokes) ran() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.runs)
}

// quietWriter is a client without a worker whose hints get lost.
func (p *pokes) quietWriter() *percolator.Client {
	var n atomic.Int64
	return p.NewClient(percolatortest.Configure(func(cfg *percolator.Config) { cfg.Oracle = passedToNobody{p.Oracle.(*tso.Server), &n} }))
}

// marks are the notify cells, as hints.
func (p *pokes) marks(prefix string) (hints []string) {
	p.Helper()
	for row, err := range p.client.Engine().Reads.ScanPending(p.ctx, "t", percolator.All()) {
		if err != nil {
			p.Fatal(err)
		}
		for _, n := range row.Notified {
			hints = append(hints, string(binary.BigEndian.AppendUint64(nil, uint64(n.Timestamp)))+n.Cell.Row)
		}
	}
	if len(hints) != pokedRows {
		p.Fatalf("%d notifications", len(hints))
	}
	return hints
}

// What stands for longer than Grace is anybody's, also when it is known by a hint that its writer
// repeats: it is not passed on once more to an owner that has not run for it.
func TestOldHintIsNotPassedOnAgain(t *testing.T) {
	t.Parallel()
	var forgotten atomic.Int64
	const grace = time.Minute
	p := newPokes(t, grace, func(e *env) [2]tso.Oracle {
		s := e.Oracle.(*tso.Server)
		return [2]tso.Oracle{passedToNobody{s, &forgotten}, unhearing{s}}
	})
	p.know()
	p.poke(p.quietWriter(), "r")
	p.Clock.Advance(2 * grace)
	for range 3 {
		if _, err := p.clients[0].Engine().Clock.Next(p.ctx); err != nil {
			t.Fatal(err)
		}
	}
	marks := p.marks("r")
	for h := range slices.Values(marks) {
		p.until("the hint is left", func() bool {
			refused, err := p.Oracle.(coordination.Hints).LeaveHints(p.ctx, []coordination.Hint{{Topic: p.topic("t", "poke"), Data: h}})
			return err == nil && len(refused) == 0
		})
	}
	p.until("each hint is dealt with", func() bool { return int64(p.ran())+forgotten.Load() >= pokedRows })
	if n := forgotten.Load(); n > 0 {
		t.Errorf("%d hints at what stood for twice the grace were passed on to an owner that does not run", n)
	}
}

// What is passed on to the owner is in nobody else's queue: the owner runs for it, however late it
// hears of it.
func TestOwnerRunsForWhatItHearsLate(t *testing.T) {
	t.Parallel()
	p := newPokes(t, time.Hour, func(e *env) [2]tso.Oracle { return [2]tso.Oracle{e.Oracle, e.Oracle} })
	p.know()
	p.poke(p.quietWriter(), "r")
	p.Clock.Advance(5 * time.Second) // hintsFirst is 4 s, the grace one hour
	for _, c := range p.clients {
		if _, err := c.Engine().Clock.Next(p.ctx); err != nil {
			t.Fatal(err)
		}
	}
	seen, err := admin.New(p.client).Workers(p.ctx)
	if err != nil || len(seen.Live) != 2 {
		t.Fatal(seen, err)
	}
	for _, h := range p.marks("r") {
		for _, w := range seen.Live {
			p.until("the hint is left", func() bool {
				refused, err := p.Oracle.(coordination.Hints).LeaveHints(p.ctx, []coordination.Hint{{Topic: p.topic("", w.Name), Data: "\x01t\x04poke" + h}})
				return err == nil && len(refused) == 0
			})
		}
	}
	p.until("all hints are taken", func() bool {
		return p.clients[0].Engine().Store.Count.HintsTaken.Load()+p.clients[1].Engine().Store.Count.HintsTaken.Load() >= 2*pokedRows
	})
	p.until("the owners have run for what was passed on to them", func() bool { return p.ran() >= pokedRows })
}
