package settle

import (
	"context"
	"time"

	"github.com/gopercolator/percolator/internal/journal"
	"github.com/gopercolator/percolator/internal/retry"
)

// A client looks at its own entries that nothing in this process has settled: phase two of others
// failed, or another process works on their notifications. It does so late, since most settle by
// themselves, then ever more rarely, and reads at most OwnerRows rows a second, the oldest first.
const (
	firstLook  = 5 * time.Second
	rarestLook = 5 * time.Minute
	lowEvery   = time.Second // how often the low positions are written at most

	// OwnerRows is how many rows a second a client looks at.
	OwnerRows = 500
	// againAfter is how long an entry stays unsettled before it is appended again: one stubborn cell
	// does not hold the low position below all that is settled.
	againAfter = 2 * time.Minute
)

// Owner settles the entries of its client (J4).
type Owner struct {
	Looker  *Looker
	Journal *journal.Appender
}

// Run looks at entries and writes low positions until ctx ends.
func (o *Owner) Run(ctx context.Context) {
	for retry.Sleep(ctx, lowEvery) == nil {
		o.turn(ctx)
		o.writeLow(ctx)
	}
}

// Close writes the low positions a last time.
func (o *Owner) Close(ctx context.Context) { o.writeLow(ctx) }

func (o *Owner) writeLow(ctx context.Context) {
	low := o.Journal.Own.Low()
	if err := journal.WriteLow(ctx, o.Looker.Store, low); err != nil {
		o.Journal.Own.LowLost(low)
	}
}

// lookAfter is how long after it was acknowledged a row is looked at for the nth time.
func lookAfter(looks int) time.Duration {
	if looks > 6 {
		return rarestLook * time.Duration(looks-5)
	}
	return firstLook << looks
}

// turn looks at the rows that are due, as far as the budget of a second goes.
func (o *Owner) turn(ctx context.Context) {
	for rows := 0; rows < OwnerRows && ctx.Err() == nil; {
		due := o.Journal.Own.Due(time.Now(), 1, lookAfter)
		if len(due) == 0 {
			return
		}
		n, err := o.look(ctx, due[0])
		if err != nil {
			o.Looker.Config.Logger.Debug("journal: a look at own entries failed, and is repeated", "err", err)
			return
		}
		rows += n
	}
}

// look looks at the unsettled entries of a row, and returns how many rows it read.
func (o *Owner) look(ctx context.Context, row *journal.OwnRow) (rows int, err error) {
	open, known := o.Journal.Own.Open(row)
	var items []*Item
	if known {
		for _, w := range open {
			items = append(items, &Item{Entry: w.Entry(), CommitTS: o.Journal.Own.CommitTS(w), Read: row.Sent})
		}
	} else {
		entries, err := journal.ReadRow(ctx, o.Looker.Store, row.Stream, row.Seq)
		if err != nil {
			return 0, err
		}
		for _, e := range entries {
			items = append(items, &Item{Entry: e, Read: row.Sent})
		}
	}
	for _, it := range items {
		rows += len(it.Rows)
	}
	settled, err := o.Looker.Look(ctx, items)
	if err != nil {
		return rows, err
	}
	all := true
	var done []*journal.Append
	for i := range items {
		switch {
		case settled[i] && known:
			done = append(done, open[i])
		case settled[i]:
		case time.Since(row.Sent) > againAfter && o.again(ctx, items[i].Entry) == nil:
			if known {
				done = append(done, open[i])
			}
		default:
			all = false
		}
	}
	o.Journal.Own.Looked(row, all, done...)
	return rows, nil
}

// again appends an entry again at the end of a stream. The original stays until collection has
// dealt with it (J6, J7).
func (o *Owner) again(ctx context.Context, e journal.Entry) error {
	w, err := o.Journal.Append(ctx, &e)
	if err != nil {
		return err
	}
	return w.Wait(ctx)
}
