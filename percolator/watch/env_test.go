package watch_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/watch"
	"github.com/gopercolator/percolator/tso"
)

// column is what most tests watch.
var column = watch.Column{Table: "t", Name: "c"}

// config watches columns of table t from a timestamp on.
func config(from tso.Timestamp, columns ...watch.Column) watch.Config {
	if len(columns) == 0 {
		columns = []watch.Column{column}
	}
	return watch.Config{Columns: columns, From: watch.At(from), Interval: time.Millisecond}
}

// until watches until the position has reached a timestamp.
func until(t testing.TB, ctx context.Context, c *percolator.Client, cfg watch.Config, ts tso.Timestamp) (all []watch.Change, at watch.Position) {
	t.Helper()
	for b, err := range watch.Changes(ctx, c, cfg) {
		fixture.Must(t, err)
		all, at = append(all, b.Changes...), b.Position
		if at.Timestamp() >= ts {
			return all, at
		}
	}
	t.Fatalf("the watcher ended below %d: %v", ts, ctx.Err())
	return nil, at
}

// failure watches until an error comes.
func failure(t testing.TB, ctx context.Context, c *percolator.Client, cfg watch.Config) error {
	t.Helper()
	for _, err := range watch.Changes(ctx, c, cfg) {
		if err != nil {
			return err
		}
	}
	return nil
}

// now is a timestamp of the oracle.
func now(t testing.TB, ctx context.Context, o tso.Oracle) tso.Timestamp {
	t.Helper()
	ts, err := o.Next(ctx)
	fixture.Must(t, err)
	return ts
}

// shown is changes as row.column=value, or row.column for a deletion.
func shown(changes []watch.Change) string {
	var words []string
	for _, c := range changes {
		word := c.Cell.Row + "." + c.Cell.Column
		if !c.Deleted {
			word += "=" + string(c.Value)
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

func key(i int) string { return fmt.Sprintf("r%03d", i) }
