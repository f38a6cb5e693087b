package keep

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/internal/text"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// gcJSON is what "gc status" and "gc run" print for programs. Timestamps are 0 where there is none.
type gcJSON struct {
	Now          tso.Timestamp `json:"now"`
	Safepoint    tso.Timestamp `json:"safepoint"`   // reads at or below it are refused
	GCWatermark  tso.Timestamp `json:"gcWatermark"` // nothing newer has been removed
	Retention    string        `json:"retention"`
	BehindMillis int64         `json:"behindMillis"` // of the GC watermark behind the retention
	Next         tso.Timestamp `json:"next"`         // the safepoint of a cycle that began now
	HeldBy       string        `json:"heldBy"`       // the hold that keeps it back; "": none does
	Cycle        cycleJSON     `json:"cycle"`
	Holds        []holdJSON    `json:"holds"`
}

// cycleJSON is admin.Collection, the current cycle or the last one, with the names that the
// output has.
type cycleJSON struct {
	Phase      model.CollectionPhase `json:"phase"` // none, drain, resolve, erase or done
	Safepoint  tso.Timestamp         `json:"safepoint"`
	Started    tso.Timestamp         `json:"started"`
	Updated    tso.Timestamp         `json:"updated"`
	Table      string                `json:"table"` // those before it, by name, are done
	Row        string                `json:"-"`
	Page       string                `json:"-"`
	Holder     string                `json:"holder"` // the collector at work
	Expires    tso.Timestamp         `json:"expires"`
	Locks      int64                 `json:"locks"`
	Rows       int64                 `json:"rows"`
	Versions   int64                 `json:"versions"`
	Tombstones int64                 `json:"tombstones"`
	Expired    int64                 `json:"expired"` // expired values deleted for observers
	Postponed  int64                 `json:"postponed"`
	Corrupt    int64                 `json:"corrupt"`
	Dispatched int64                 `json:"dispatched"` // that the journal missed
	Unread     int64                 `json:"unread"`     // rows erased in without reading them
	// Rows that contradict what clients told.
	Contradicted int64 `json:"contradicted"`
}

// noCycle is the phase of a cycle if there never was one.
const noCycle model.CollectionPhase = "none"

func NewGCStatus() *cobra.Command {
	var f cli.ListFlags
	var keep cli.Retention
	cmd := &cobra.Command{
		Use:     "status",
		PreRunE: func(*cobra.Command, []string) error { return keep.Check() },
		RunE: f.Run(func(ctx context.Context, cmd *cobra.Command, c *percolator.Client, _ []string) error {
			out, err := readGC(ctx, c)
			if err != nil {
				return err
			}
			return f.Output.Emit(cmd.OutOrStdout(), out, out.print)
		}, keep.Configure),
	}
	f.Add(cmd, cli.CellTimeout)
	keep.Add(cmd)
	return cmd
}

func readGC(ctx context.Context, c *percolator.Client) (gcJSON, error) {
	b, err := admin.New(c).CollectionBounds(ctx)
	if err != nil {
		return gcJSON{}, err
	}
	col, err := admin.New(c).Collection(ctx)
	if err != nil {
		return gcJSON{}, err
	}
	holds, err := admin.New(c).Holds(ctx)
	if err != nil {
		return gcJSON{}, err
	}
	out := gcJSON{Now: b.Now, Safepoint: b.Safepoint, GCWatermark: b.Watermark, Retention: b.Retention.String(), Next: b.Next, Cycle: cycleJSON(col), Holds: ordered.Map(holds, newHoldJSON)}
	out.Cycle.Phase = cmp.Or(col.Phase, noCycle)
	if b.Watermark != 0 {
		out.BehindMillis = max(0, b.Now.Add(-b.Retention).Sub(b.Watermark)).Milliseconds()
	}
	if b.HeldBy != nil {
		out.HeldBy = b.HeldBy.ID
	}
	return out, nil
}

func (g gcJSON) print(w io.Writer) {
	now := g.Now.Time()
	at := func(ts tso.Timestamp) string {
		if ts == 0 {
			return "never"
		}
		return text.At(ts) + ", " + cli.Age(now, ts.Time())
	}
	t := cli.NewTable(w)
	t.Row("safepoint", at(g.Safepoint))
	t.Row("GC watermark", at(g.GCWatermark))
	if g.GCWatermark != 0 {
		behind := (time.Duration(g.BehindMillis) * time.Millisecond).Truncate(time.Second)
		t.Row("behind", fmt.Sprintf("%v, for a retention of %s", behind, g.Retention))
	}
	if g.HeldBy != "" {
		t.Row("held back by", "hold "+g.HeldBy)
	}
	t.Row("holds", len(g.Holds))
	t.Row("cycle", g.Cycle.Phase)
	if g.Cycle.Phase != noCycle {
		g.Cycle.print(t, at)
	}
	t.Flush()
}

func (c cycleJSON) print(t cli.Table, at func(tso.Timestamp) string) {
	t.Row("  started", at(c.Started))
	t.Row("  last heard of", at(c.Updated))
	if c.Holder != "" {
		t.Row("  collector", c.Holder+", until "+c.Expires.Time().UTC().Format(time.RFC3339))
		t.Row("  table", cli.OrDash(c.Table))
	}
	t.Row("  locks resolved", c.Locks)
	t.Row("  rows read", c.Rows)
	t.Row("  versions removed", c.Versions)
	t.Row("  tombstones removed", c.Tombstones)
	t.Row("  expired values deleted for observers", c.Expired)
	t.Row("  cells postponed", c.Postponed)
	t.Row("  cells corrupt", c.Corrupt)
}
