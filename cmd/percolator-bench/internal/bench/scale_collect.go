package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
)

// scaleCollection is one cycle of collection through all tables of a sweep. A cycle waits until nobody acts on what was there before;
// that passes while other operations are measured, and after it the collector waits for them to end.
type scaleCollection struct {
	client *percolator.Client
	sent   *scaleRequests // by that
	tables []*scaleTable
	cancel context.CancelFunc
	over   chan struct{} // closed when the goroutine has ended
	ready  chan struct{} // closed when it has waited
	goOn   chan struct{} // closed when the others are done
	ended  chan error

	// Of the goroutine that collects, until ended.
	erasing bool
	last    scaleMoment
	pages   map[string][]float64 // by table: microseconds for each row of a page
	done    map[string]*scaleMoment
	col     admin.Collection
}

// scaleMoment is how far a collection was at some time, or what it did with a table.
type scaleMoment struct {
	at             time.Time
	rows, versions int64
	cost           scaleCost
}

// startCollection begins a cycle with a client of its own.
func (lab *scaleLab) startCollection(ctx context.Context, tables []*scaleTable) (*scaleCollection, error) {
	sent := newScaleRequests()
	client, err := lab.ground.client(ctx, percolator.Config{Retention: time.Minute}, sent.option()...)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	c := &scaleCollection{cancel: cancel, client: client, sent: sent, tables: tables, over: make(chan struct{}), ready: make(chan struct{}), goOn: make(chan struct{}), ended: make(chan error, 1),
		pages: map[string][]float64{}, done: map[string]*scaleMoment{}}
	collector, err := admin.New(client).NewCollector(admin.CollectorConfig{
		Lease: time.Hour, RowsPerSecond: 1_000_000_000, // it is alone, and as fast as it can
		Progress: func(col admin.Collection) { c.progress(ctx, col) },
	})
	if err != nil {
		cancel()
		return nil, err
	}
	go func() {
		defer close(c.over)
		var err error
		c.col, err = collector.Collect(ctx)
		c.ended <- err
	}()
	return c, nil
}

// stop ends it, however far it has come.
func (c *scaleCollection) stop() {
	c.cancel()
	<-c.over
}

// progress is called after every page and step.
func (c *scaleCollection) progress(ctx context.Context, col admin.Collection) {
	switch {
	case col.Phase == admin.CollectionResolve && c.last.at.IsZero():
		c.last = c.now(col)
		close(c.ready)
		select {
		case <-c.goOn:
		case <-ctx.Done():
		}
	case col.Phase == admin.CollectionErase && !c.erasing:
		c.erasing = true
		c.last = c.now(col)
	case col.Phase == admin.CollectionErase:
		c.page(col)
	}
}

func (c *scaleCollection) now(col admin.Collection) scaleMoment {
	return scaleMoment{at: time.Now(), rows: col.Rows, versions: col.Versions, cost: c.sent.now(c.client)}
}

// page accounts for the rows since the last call.
func (c *scaleCollection) page(col admin.Collection) {
	now := c.now(col)
	if n := now.rows - c.last.rows; n > 0 {
		c.pages[col.Table] = append(c.pages[col.Table], float64(now.at.Sub(c.last.at).Nanoseconds())/1e3/float64(n))
	}
	did := c.done[col.Table]
	if did == nil {
		did = &scaleMoment{cost: newScaleCost()}
		c.done[col.Table] = did
	}
	did.rows += now.rows - c.last.rows
	did.versions += now.versions - c.last.versions
	did.cost.add(c.last.cost, now.cost)
	c.last = now
}

// finish lets the cycle go on and waits for its end.
func (c *scaleCollection) finish(ctx context.Context) (ScaleOperation, error) {
	op := ScaleOperation{Name: "collect", What: "a collector's pass through the table, to remove what nobody can read any more", Per: "row"}
	select {
	case <-c.ready:
	case err := <-c.ended:
		return op, fmt.Errorf("it ended before its time: %w", err)
	case <-ctx.Done():
		return op, ctx.Err()
	}
	close(c.goOn)
	if err := <-c.ended; err != nil {
		return op, err
	}
	var medians [][]float64
	for _, t := range c.tables {
		pages, did := slices.Sorted(slices.Values(c.pages[t.name])), c.done[t.name]
		if did == nil || did.rows != int64(t.rows) {
			return op, fmt.Errorf("a table of %d rows was not read through: %+v", t.rows, did)
		}
		if least := int64(2 * (t.versions - 1) * t.rows); did.versions < least { // data and record of all versions but the newest
			return op, fmt.Errorf("%d versions of a table with %d rows were removed, not %d", did.versions, t.rows, least)
		}
		p := ScalePoint{Size: t.size, Count: len(pages), P99: nearestRank(pages, 0.99), Removed: did.versions,
			Requests: did.cost.each(1), RowsRead: float64(did.cost.rowsRead)}
		op.Points = append(op.Points, p)
		medians = append(medians, []float64{pages[len(pages)/2]})
	}
	op.grow(medians)
	if rest := c.col.Corrupt + c.col.Postponed; rest > 0 {
		return op, fmt.Errorf("%d cells were corrupt or left to the next cycle", rest)
	}
	return op, nil
}
