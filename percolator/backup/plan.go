package backup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/internal/transfer"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// maxSplits is how many initial splits Bigtable takes for a table, and how many ranges of a table a
// backup has at least room for.
const maxSplits = 100

// begin makes the plan of a new backup and stores it. Until that is done a crash leaves only a
// hold, which expires.
func (r *run) begin(ctx context.Context) (*storedPlan, error) {
	schema, err := chosen(r.client.Schema(), r.opts.Tables)
	if err != nil {
		return nil, err
	}
	if err := r.tryPlace(ctx); err != nil {
		return nil, err
	}
	hold, ts, missed, err := r.takeHold(ctx, schema)
	if err != nil {
		return nil, err
	}
	p := &storedPlan{
		Plan: Plan{
			Format: Format, ID: uuid.NewString(), Snapshot: ts, SnapshotTime: ts.Time().UTC(), Started: r.opts.now().UTC(),
			Schema: admin.EncodeSchema(schema), MissedWeak: missed,
		},
		Hold: holdRecord{hold.ID, hold.Timestamp, hold.Reason},
	}
	if err = r.survey(ctx, p, schema); err != nil {
		return nil, errors.Join(err, r.release(ctx, hold))
	}
	if err = putJSON(ctx, r.store, planName, p); err != nil { // it may be stored all the same
		look, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
		defer cancel()
		if now, lerr := readPlan(look, r.store); lerr == nil && (now == nil || now.ID != p.ID) {
			err = errors.Join(err, r.release(ctx, hold))
		}
	}
	return p, err
}

// tryPlace writes something that goes again, so that a place without room, or without the right to
// write, shows before the wait for a hold. Its name is new: a place may keep what it has.
func (r *run) tryPlace(ctx context.Context) error {
	name := "progress/room-" + uuid.NewString()
	if err := put(ctx, r.store, name, make([]byte, 1<<20)); err != nil {
		return err
	}
	_ = r.store.Delete(ctx, name) // it is in nobody's way
	return nil
}

// chosen is the schema of the backup, without what is being dropped.
func chosen(s *percolator.Schema, names []string) (*percolator.Schema, error) {
	if len(names) == 0 {
		all := *s
		all.Dropping = nil
		return &all, nil
	}
	out := &percolator.Schema{Timing: s.Timing}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		t := tableOf(s, name)
		if t == nil {
			return nil, fmt.Errorf("backup: table %q: %w: it is not in the schema", name, percolator.ErrSchemaMismatch)
		}
		out.Tables = append(out.Tables, *t)
	}
	return out, nil
}

// tableOf returns a table of the schema; nil if it has none of that name.
func tableOf(s *percolator.Schema, name string) *percolator.Table {
	if i := slices.IndexFunc(s.Tables, func(t percolator.Table) bool { return t.Name == name }); i >= 0 {
		return &s.Tables[i]
	}
	return nil
}

func hasWeak(s *percolator.Schema) bool {
	return slices.ContainsFunc(s.Tables, func(t percolator.Table) bool { return len(t.Weak) > 0 })
}

// takeHold chooses the timestamp of the backup and protects it.
func (r *run) takeHold(ctx context.Context, schema *percolator.Schema) (h model.Hold, ts tso.Timestamp, missedWeak bool, err error) {
	const reason = "percolator backup"
	switch {
	case r.opts.AsOf != 0:
		if hasWeak(schema) && !r.opts.MissWeak {
			return h, 0, false, fmt.Errorf("backup: %w: the schema has weak columns, and which of their notifications were pending at an earlier time is not known: "+
				"take the backup of now, or do without those (MissWeak, --miss-weak)", percolator.ErrInvalidArgument)
		}
		h, err = r.admin.TakeHold(ctx, r.opts.AsOf, r.opts.HoldTTL, reason)
		return h, h.Timestamp, hasWeak(schema), err
	case hasWeak(schema) && !r.opts.MissWeak:
		h, ts, err = transfer.BeginExport(ctx, r.client.Engine(), r.opts.HoldTTL, reason, r.opts.Waiting)
		return h, ts, false, err
	}
	h, err = r.admin.TakeHold(ctx, 0, r.opts.HoldTTL, reason)
	return h, h.Timestamp, hasWeak(schema), err
}

// survey cuts the tables into ranges. Those with weak notifications come last: they are read when
// all others have been.
func (r *run) survey(ctx context.Context, p *storedPlan, schema *percolator.Schema) error {
	incomplete, err := r.client.Engine().Meta.IncompleteIndexes(ctx, p.Snapshot)
	if err != nil {
		return err
	}
	var weak []rowRange
	for _, t := range schema.Tables {
		for _, ix := range t.Indexes {
			if name := t.Name + "." + ix.Name; slices.Contains(incomplete, name) {
				p.IncompleteIndexes = append(p.IncompleteIndexes, name)
			}
		}
		keys, err := r.client.Engine().Reads.SampleEvenly(ctx, t.Name, maxSplits)
		if err != nil {
			return err
		}
		table := Table{Name: t.Name}
		start := []byte(nil)
		for _, key := range keys {
			table.Splits = append(table.Splits, []byte(key))
			p.Ranges = append(p.Ranges, rowRange{Table: t.Name, Start: start, End: []byte(key)})
			start = []byte(key)
		}
		p.Ranges = append(p.Ranges, rowRange{Table: t.Name, Start: start})
		p.Tables = append(p.Tables, table)
		if len(t.Weak) > 0 {
			weak = append(weak, rowRange{Table: t.Name, Weak: true})
		}
	}
	p.Ranges = append(p.Ranges, weak...)
	return nil
}

// resume takes up a plan that was found.
func (r *run) resume(ctx context.Context, p *storedPlan) error {
	schema, err := p.DecodeSchema()
	if err != nil {
		return err
	}
	want := r.opts.Tables
	if len(want) == 0 {
		want = ordered.Map(schema.Tables, func(t percolator.Table) string { return t.Name })
	}
	now, err := chosen(r.client.Schema(), want)
	if err != nil || string(admin.EncodeSchema(now)) != string(admin.EncodeSchema(schema)) {
		return fmt.Errorf("backup: %w: its tables are not those that were asked for, or the schema has changed: restart it (--restart), or choose another place", ErrOtherPlan)
	}
	_, err = r.admin.ExtendHold(ctx, p.Hold.hold(), r.opts.HoldTTL)
	if errors.Is(err, percolator.ErrSnapshotTooOld) {
		return fmt.Errorf("backup: %w: the snapshot of %s may have been collected; begin again with a new one (--restart): %w",
			ErrHoldGone, p.SnapshotTime.Format(time.RFC3339), err)
	}
	return err
}

// restart removes what an earlier attempt has left, and its hold.
func (r *run) restart(ctx context.Context, p *storedPlan) error {
	if err := r.release(ctx, p.Hold.hold()); err != nil {
		return err
	}
	names, err := r.store.List(ctx, "")
	if err != nil {
		return err
	}
	for _, name := range names {
		if name == planName || name == checksumName || strings.HasPrefix(name, "progress/") || strings.HasPrefix(name, "chunks/") {
			if err := r.store.Delete(ctx, name); err != nil {
				return fmt.Errorf("backup: deleting %s: %w", name, err)
			}
		}
	}
	return nil
}
