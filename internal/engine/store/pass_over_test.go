package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopercolator/percolator/internal/catalog"
	"github.com/gopercolator/percolator/percolator/model"
)

// Many ranges travel together, as far as a request may name them, and rows between them cost
// nothing.
func TestPassOverManyRanges(t *testing.T) {
	t.Parallel()
	for _, reverse := range []bool{false, true} {
		d := &disk{rows: 3000, matches: always, script: uncut}
		over := 0
		d.passing = func(context.Context, int) { over++ }
		rows := Rows{Reverse: reverse}
		for i := 0; i < d.rows; i += 2 {
			rows.Ranges = append(rows.Ranges, model.Row(diskKey(i)))
		}
		got, err := readAll(t, t.Context(), d.store().NewPassOver("t", rows, Pending(), PageSize{}))
		if err != nil || !slices.Equal(got, d.want(rows)) || over != 1500 {
			t.Errorf("%d rows of %d, %v", len(got), over, err)
		}
		if want := []int{512, 512, 476}; !slices.Equal(d.named, want) {
			t.Errorf("requests named %d ranges, want %d", d.named, want)
		}
	}
}

// A page that is full ends within a request's ranges, and the next one begins behind its last row,
// with as many ranges as there are left.
func TestPassOverRangesInPages(t *testing.T) {
	t.Parallel()
	d := &disk{rows: 100, matches: func(i int) bool { return i < 35 || i > 90 }, script: uncut}
	rows := Rows{Ranges: catalog.Ranges{model.Between(diskKey(5), diskKey(10)), model.Between(diskKey(20), diskKey(30)), model.Between(diskKey(40), "")}}
	got, err := readAll(t, t.Context(), d.store().NewPassOver("t", rows, Pending(), PageSize{First: 2, Rows: 8}))
	if want := d.want(rows); err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	if want := []string{"k00005", "k00006\x00", "k00020\x00", "k00028\x00", "k00097\x00"}; !slices.Equal(d.sent, want) || !slices.Equal(d.named, []int{3, 3, 2, 2, 1}) {
		t.Errorf("requests began at %q, want %q, and named %d ranges", d.sent, want, d.named)
	}
}

// Nothing is asked for where there is no range, and what lies before the first or between two of
// them is no progress: a range that gets nowhere ends the pass.
func TestPassOverNothing(t *testing.T) {
	t.Parallel()
	d := &disk{rows: 10, matches: always, script: uncut}
	if got, err := readAll(t, t.Context(), d.store().NewPassOver("t", Rows{}, Pending(), PageSize{})); err != nil || len(got)+len(d.sent) > 0 {
		t.Errorf("%q, %v, %d requests", got, err, len(d.sent))
	}
	synctest.Test(t, func(t *testing.T) {
		d := &disk{rows: 10, matches: never, script: func(int) cut { return cut{after: 0, err: errCut} }}
		_, err := readAll(t, t.Context(), d.store().NewPassOver("t", Rows{Ranges: catalog.Ranges{model.Row(diskKey(3)), model.Row(diskKey(7))}}, Pending(), PageSize{}))
		if err == nil || len(d.sent) != PassAttempts || !strings.Contains(err.Error(), "k00003") {
			t.Errorf("%v after %d requests", err, len(d.sent))
		}
	})
}

// Once a request was cut off, the parts of the table that hold some of the ranges are read in
// parallel, and no others.
func TestPassOverRangesReadsAhead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		started := time.Now()
		d := &disk{rows: 3200, matches: func(i int) bool { return i%10 == 7 }, script: func(int) cut { return cut{after: -1, tell: 1} }}
		d.passing = func(ctx context.Context, _ int) {
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
		for i := range 31 {
			d.samples = append(d.samples, diskKey(100*i+100))
		}
		rows := Rows{Ranges: catalog.Ranges{model.Between(diskKey(150), diskKey(550)), model.Row(diskKey(1207)), model.Between(diskKey(2900), diskKey(3150))}}
		got, err := readAll(t, t.Context(), d.store().NewPassOver("t", rows, Pending(), PageSize{}))
		if want := d.want(rows); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
		if took := time.Since(started); took > 300*time.Second { // 651 rows
			t.Errorf("it took %v", took)
		}
		for _, from := range d.sent {
			if from > diskKey(550) && from < diskKey(1207) || from > diskKey(1207)+"\x00" && from < diskKey(2900) {
				t.Errorf("a request began at %q, between the ranges", from)
			}
		}
	})
}

// What a request names stays below its limits in number and in bytes.
func TestNameableRanges(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("k", model.MaxRowKeyBytes-5)
	for name, c := range map[string]struct{ ranges, key, want int }{
		"short ones": {2000, 5, RequestRows},
		"long ones":  {2000, model.MaxRowKeyBytes, RequestKeyBytes / (2*model.MaxRowKeyBytes + 1)},
		"few":        {3, 5, 3},
	} {
		var rs catalog.Ranges
		for i := range c.ranges {
			rs = append(rs, model.Row(long[:c.key-5]+fmt.Sprintf("%05d", i)))
		}
		for _, reverse := range []bool{false, true} {
			if got := len(Rows{Reverse: reverse}.nameable(rs)); got != c.want {
				t.Errorf("%s, reverse %v: %d, want %d", name, reverse, got, c.want)
			}
		}
	}
	if got := len(Rows{}.nameable(catalog.Ranges{model.Row(strings.Repeat("x", RequestKeyBytes))})); got != 1 {
		t.Errorf("of one that is too long: %d", got)
	}
}
