package simulation

import (
	"context"

	"github.com/gopercolator/percolator/internal/engine/journal"
	"github.com/gopercolator/percolator/percolator/admin"
)

// headerlessCycles is how many cycles of collection find every stream: the first may end another
// one, which has looked for them already.
const headerlessCycles = 2

// adoptHeaderless deals with clients that appended to a stream whose header had been deleted, as
// they did not know yet that their sessions had ended, and then died: a cycle of collection gives
// such a stream a header, and workers adopt it. A collector may have died before: a call that only
// helps it to erase looks for no streams, and the next one is refused until its lease has ended.
func (w *world) adoptHeaderless(ctx context.Context, p *process) {
	lost := w.headerless(ctx, p)
	if lost == 0 {
		return
	}
	w.tally.add(headerless)
	for n := 0; n < headerlessCycles && lost > 0; n++ {
		w.advance(ctx, p, w.collectorConfig().Lease)
		collector, err := admin.New(p.client).NewCollector(w.collectorConfig())
		if err == nil {
			_, err = collector.Collect(ctx)
		}
		if err != nil {
			w.problem("a collection for streams without a header: %v", err)
		}
		lost = w.headerless(ctx, p)
	}
	if lost > 0 {
		w.problem("%d streams without a header are left", lost)
	}
	w.comeToRest(ctx, p)
}

// headerless counts the streams with rows and without a header.
func (w *world) headerless(ctx context.Context, p *process) int {
	s := p.client.Engine().Store
	all, err := journal.AllStreams(ctx, s)
	if err != nil {
		w.problem("the streams: %v", err)
		return 0
	}
	with, err := journal.Streams(ctx, s)
	if err != nil {
		w.problem("the streams: %v", err)
		return 0
	}
	return len(all) - len(with)
}
