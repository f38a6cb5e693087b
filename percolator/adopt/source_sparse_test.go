package adopt_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/adopt"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

// A mapped column that one row in five minutes has is copied and compared, in requests of a minute.
func TestCopyOfARareColumn(t *testing.T) { inBubble(t, testCopyOfARareColumn) }

func testCopyOfARareColumn(t *testing.T) {
	const n, every, size, speed = 3000, 1300, 1000, 4000 // a minute passes over some 240 rows
	disks := &emulator.Disks{Speed: speed}
	w := newWorld(t, nil, percolatortest.Emulator(emulator.OnDisks(disks)))
	at, want := time.Now(), map[string]string{}
	for from := 0; from < n; from += 500 {
		var keys []string
		var muts []*bigtable.Mutation
		for i := from; i < from+500; i++ {
			key, mut := fmt.Sprintf("row-%05d", i), bigtable.NewMutation()
			mut.Set("f", "other", bigtable.Time(at).TruncateToMilliseconds(), []byte(strings.Repeat("x", size)))
			if i%every == 0 {
				mut.Set("f", "v", bigtable.Time(at).TruncateToMilliseconds(), []byte("rare"))
				want[key+"/value"] = "rare"
			}
			keys, muts = append(keys, key), append(muts, mut)
		}
		errs, err := w.plain.ApplyBulk(w.ctx, keys, muts)
		fixture.Must(t, errors.Join(append(errs, err)...))
	}
	began := time.Now()
	r, err := w.bulk(at.Add(time.Minute), nil)
	fixture.Must(t, err)
	if !maps.Equal(w.contents(), want) || r.Items != int64(len(want)) {
		t.Errorf("%q, %+v", w.contents(), r.Progress)
	}
	if took, least := time.Since(began), n*size/speed*time.Second; took < least || took > 2*least {
		t.Errorf("the copy took %v, and to read the table %v", took, least)
	}
	c, found := w.compare(false)
	if c.Rows != int64(len(want)) || len(found) > 0 || c.Next != "" {
		t.Errorf("%+v, %v", c, found)
	}
}

// Whatever the speed and however rare the column, each row is copied once: also the last one, and
// one with an empty value, which looks like a cell that only shows where the read is.
func TestCopiesOfRareColumns(t *testing.T) {
	t.Parallel()
	for seed := range uint64(fixture.Of(20, 3)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { inBubble(t, func(t *testing.T) { testCopyBySeed(t, seed) }) })
	}
}

func testCopyBySeed(t *testing.T, seed uint64) {
	const n = 1500
	r := rand.New(rand.NewPCG(seed, 1))
	w := newWorld(t, nil, percolatortest.Emulator(emulator.OnDisks(&emulator.Disks{Speed: 1000 + r.Int64N(20000)})))
	at, rare, want := time.Now(), 1+r.IntN(300), map[string]string{}
	var keys []string
	var muts []*bigtable.Mutation
	for i := range n {
		key, mut := fmt.Sprintf("row-%05d", i), bigtable.NewMutation()
		mut.Set("f", "other", bigtable.Time(at).TruncateToMilliseconds(), []byte(strings.Repeat("x", r.IntN(2000))))
		if r.IntN(rare) == 0 || i == n-1 {
			mut.Set("f", "v", bigtable.Time(at).TruncateToMilliseconds(), nil)
			want[key+"/value"] = ""
		}
		keys, muts = append(keys, key), append(muts, mut)
	}
	errs, err := w.plain.ApplyBulk(w.ctx, keys, muts)
	fixture.Must(t, errors.Join(append(errs, err)...))
	report, err := w.bulk(at.Add(time.Minute), nil)
	fixture.Must(t, err)
	if !maps.Equal(w.contents(), want) || report.Items != int64(len(want)) {
		t.Errorf("%d cells by %d items, want %d", len(w.contents()), report.Items, len(want))
	}
	if c, found := w.compare(false); c.Rows != int64(len(want)) || len(found) > 0 {
		t.Errorf("%+v, %v", c, found)
	}
}

// A comparison keeps two pages in memory, however many rows only the Percolator table has, and goes
// on where it was broken off.
func TestComparisonBeginsAtAKey(t *testing.T) { inBubble(t, testComparisonBeginsAtAKey) }

func testComparisonBeginsAtAKey(t *testing.T) {
	const n = 2500
	w := newWorld(t, nil)
	for from := 0; from < n; from += 500 {
		fixture.Must(t, fixture.Update(w.ctx, w.Client, func(tx *percolator.Txn) error {
			for i := from; i < from+500; i++ {
				if err := tx.Set(percolator.Cell{Table: "t", Row: fixture.Key(i), Column: "value"}, []byte("x")); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	w.put(fixture.Key(n-1), time.Now(), "f", "v", "x")
	ctx, stop := context.WithCancel(w.ctx)
	differ := int64(0)
	opts := adopt.CompareOptions{Found: func(adopt.Difference) {
		if differ++; differ == 1500 { // in the second page
			stop()
		}
	}}
	r, err := adopt.Compare(ctx, w.Client, "t", w.plain, w.m, opts)
	fixture.WantErr(t, err, context.Canceled)
	if r.Next != fixture.Key(1000) {
		t.Fatalf("broken off: %+v", r)
	}
	opts.Start, differ = r.Next, 2000
	r, err = adopt.Compare(w.ctx, w.Client, "t", w.plain, w.m, opts)
	fixture.Must(t, err)
	if r.Next != "" || r.Differ != n-1-1000 || r.Rows != 1 {
		t.Errorf("from %q on: %+v", opts.Start, r)
	}
}
