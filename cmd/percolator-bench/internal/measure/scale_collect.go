package measure

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gopercolator/percolator/percolator"
)

// scaleCollection is one cycle of collection through all tables of a sweep. A cycle waits until
// nobody acts on what was there before; that passes while other operations are measured, and after
// it the collector waits for them to end.
type scaleCollection struct {
	client *percolator.Client
	sent   requestCounter // by that
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
	col     collection
}

// scaleMoment is how far a collection was at some time, or what it did with a table.
type scaleMoment struct {
	at             time.Time
	rows, versions int64
	cost           counted
}

// startCollection begins a cycle with a client of its own.
func (lab *scaleLab) startCollection(ctx context.Context, tables []*scaleTable) (*scaleCollection, error) {
	c := &scaleCollection{tables: tables, over: make(chan struct{}), ready: make(chan struct{}), goOn: make(chan struct{}), ended: make(chan error, 1),
		pages: map[string][]float64{}, done: map[string]*scaleMoment{}}
	var err error
	if c.client, err = lab.environment.client(ctx, percolator.Config{Retention: time.Minute}, c.sent.option()); err != nil {
		return nil, err
	}
	ctx, c.cancel = context.WithCancel(ctx)
	go func() {
		defer close(c.over)
		var err error
		c.col, err = collect(ctx, c.client, func(col collection) { c.progress(ctx, col) })
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
func (c *scaleCollection) progress(ctx context.Context, col collection) {
	switch {
	case col.Phase == collectionResolves && c.last.at.IsZero():
		c.last = c.now(col)
		close(c.ready)
		select {
		case <-c.goOn:
		case <-ctx.Done():
		}
	case col.Phase == collectionErases && !c.erasing:
		c.erasing = true
		c.last = c.now(col)
	case col.Phase == collectionErases:
		c.page(col)
	}
}

func (c *scaleCollection) now(col collection) scaleMoment {
	return scaleMoment{at: time.Now(), rows: col.Rows, versions: col.Versions, cost: costOf(&c.sent, c.client)}
}

// page accounts for the rows since the last call.
func (c *scaleCollection) page(col collection) {
	now := c.now(col)
	if n := now.rows - c.last.rows; n > 0 {
		c.pages[col.Table] = append(c.pages[col.Table], float64(now.at.Sub(c.last.at).Nanoseconds())/1e3/float64(n))
	}
	did := c.done[col.Table]
	if did == nil {
		did = &scaleMoment{}
		c.done[col.Table] = did
	}
	did.rows += now.rows - c.last.rows
	did.versions += now.versions - c.last.versions
	did.cost.add(c.last.cost, now.cost)
	c.last = now
}

// finish lets the cycle go on and waits for its end.
func (c *scaleCollection) finish(ctx context.Context) (scaleOperation, error) {
	op := scaleOperation{name: "collect", what: "a collector's pass through the table, to remove what nobody can read any more", per: "row"}
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
	for _, t := range c.tables {
		pages, did := slices.Sorted(slices.Values(c.pages[t.name])), c.done[t.name]
		if did == nil || did.rows != int64(t.rows) {
			return op, fmt.Errorf("a table of %d rows was not read through: %+v", t.rows, did)
		}
		if least := int64(2 * (t.versions - 1) * t.rows); did.versions < least { // data and record of all versions but the newest
			return op, fmt.Errorf("%d versions of a table with %d rows were removed, not %d", did.versions, t.rows, least)
		}
		op.points = append(op.points, scalePoint{size: t.size, count: 1, us: []float64{pages[len(pages)/2]}, p99: nearestRank(pages, 0.99),
			removed: did.versions, cost: did.cost})
	}
	if rest := c.col.Corrupt + c.col.Postponed; rest > 0 {
		return op, fmt.Errorf("%d cells were corrupt or left to the next cycle", rest)
	}
	return op, nil
}
