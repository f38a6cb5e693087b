package simulation

import (
	"context"

	"github.com/gopercolator/percolator/internal/journal"
	"github.com/gopercolator/percolator/percolator/admin"
)

// adoptHeaderless deals with clients that appended to a stream whose header had been deleted, as
// they did not know yet that their sessions had ended, and then died: a cycle of collection gives
// such a stream a header, and workers adopt it.
func (w *world) adoptHeaderless(ctx context.Context, p *process) {
	s := p.client.Engine().Store
	all, err := journal.AllStreams(ctx, s)
	if err != nil {
		w.problem("the streams: %v", err)
		return
	}
	with, err := journal.Streams(ctx, s)
	if err != nil {
		w.problem("the streams: %v", err)
		return
	}
	if len(all) == len(with) {
		return
	}
	w.tally.add(headerless)
	collector, err := admin.New(p.client).NewCollector(w.collectorConfig())
	if err == nil {
		_, err = collector.Collect(ctx)
	}
	if err != nil {
		w.problem("a collection for streams without a header: %v", err)
	}
	w.comeToRest(ctx, p)
}
