package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/internal/engine/commit"
	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/reads"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/testing/layertest"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// rawRecord is the value of a write record of any start timestamp and kind.
func rawRecord(start int64, k byte) []byte {
	return append(binary.BigEndian.AppendUint64(nil, uint64(start)), k)
}

// storedLocks lists the locks in table t, as row/column.
func storedLocks(t *testing.T, ctx context.Context, c *Engine) (locks []string) {
	t.Helper()
	err := c.Store.ReadRows(ctx, "t", store.Rows{}, store.AllLocks(), 0, func(r layout.Row) bool {
		for _, it := range r.Items {
			locks = append(locks, r.Key+"/"+it.Column)
		}
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return locks
}

// present is the oracle's in these tests; they plant hostile cells below and above it.
const present = tso.Timestamp(1_000_000)

// A transaction that reads a record that no transaction can have written, or that would have to
// write past it, reports the record and leaves it as it is. It leaves no lock on the other rows
// that it writes either.
func TestHostileRecords(t *testing.T) {
	t.Parallel()
	ctx, c := newBareClient(t)
	c.Clock.Oracle.(*layertest.Counter).Last.Store(int64(present))
	for name, r := range map[string]struct {
		at    tso.Timestamp
		value []byte
	}{
		"no bytes":                        {present - 100, nil},
		"seven bytes":                     {present - 100, rawRecord(5, 'P')[:7]},
		"no kind":                         {present - 100, rawRecord(5, 'P')[:8]},
		"an unknown kind":                 {present - 100, rawRecord(5, 'X')},
		"a kind of 0":                     {present - 100, rawRecord(5, 0)},
		"a start of 0":                    {present - 100, rawRecord(0, 'P')},
		"a negative start":                {present - 100, rawRecord(-5, 'D')},
		"a start at the commit":           {present - 100, rawRecord(int64(present-100), 'P')},
		"a start after the commit":        {present - 100, rawRecord(int64(present), 'L')},
		"a marker at another time":        {present - 100, rawRecord(5, 'R')},
		"a marker of 0":                   {present - 100, rawRecord(0, 'R')},
		"text":                            {present - 100, []byte("committed, trust me")},
		"nonsense after the present":      {present + 1_000_000, []byte("x")},
		"an unknown kind after it":        {present + 1_000_000, rawRecord(int64(present), 'X')},
		"a start after the commit, later": {present + 1_000_000, rawRecord(int64(present)+2_000_000, 'P')},
	} {
		at := model.Cell{Table: "t", Row: name, Column: "c"}
		layertest.Plant(t, c.Store, name, layout.WriteFamily, "c", r.at, r.value)
		later := reads.NewSnapshot(c.Reads, present+2_000_000)
		for what, err := range map[string]error{
			"Get":      second(later.Get(ctx, at)),
			"GetMulti": second(reads.NewSnapshot(c.Reads, present+2_000_000).GetMulti(ctx, model.Cell{Table: "t", Row: "good", Column: "c"}, at)),
			"Scan":     firstOf(later.Scan(ctx, "t", model.Row(name))),
			"Scan c":   firstOf(later.Scan(ctx, "t", model.Row(name), "c")),
		} {
			if !errors.Is(err, model.ErrCorrupt) || !strings.Contains(err.Error(), fmt.Sprintf("t/%q/%q", name, "c")) || !strings.Contains(err.Error(), "percolator row") {
				t.Errorf("%s: %s gives %v", name, what, err)
			}
		}
		tx, err := c.Commits.Begin(ctx, commit.TxnOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.GetForUpdate(ctx, at); r.at < present && !errors.Is(err, model.ErrCorrupt) {
			t.Errorf("%s: GetForUpdate gives %v", name, err)
		}
		if r.at > present { // it stands in the way of a writer, and cannot be judged
			tx, err := c.Commits.Begin(ctx, commit.TxnOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, row := range []string{"before", name, "behind"} {
				if err := tx.Set(model.Cell{Table: "t", Row: row, Column: "c"}, []byte("v")); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := tx.Commit(ctx); !errors.Is(err, model.ErrCorrupt) || errors.Is(err, model.ErrConflict) {
				t.Errorf("%s: a writer gets %v", name, err)
			}
		}
		insert, err := c.Commits.Begin(ctx, commit.TxnOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(insert.Set(model.Cell{Table: "t", Row: "before", Column: "c"}, nil), insert.Insert(at, nil)); err != nil {
			t.Fatal(err)
		}
		if _, err := insert.Commit(ctx); !errors.Is(err, model.ErrCorrupt) {
			t.Errorf("%s: Insert gives %v", name, err)
		}
		if locks := storedLocks(t, ctx, c); len(locks) != 0 {
			t.Errorf("%s: locks left: %q", name, locks)
		}
		row, err := c.Store.ReadRow(ctx, "t", name, store.Newest(nil, 0, 9))
		if records := row.Of(layout.WriteFamily); err != nil || len(records) != 1 || string(records[0].Value) != string(r.value) {
			t.Errorf("%s: what was stored became %v, %v", name, row, err)
		}
	}
}

func firstOf(stream func(func(model.Entry, error) bool)) (first error) {
	for _, err := range stream {
		if err != nil {
			return err
		}
	}
	return nil
}
