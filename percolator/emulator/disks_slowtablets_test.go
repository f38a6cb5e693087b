package emulator

import (
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/bigtable"
	"google.golang.org/grpc/codes"
)

// TestSlowTablet: what needs it takes longer, once for each request, and nothing else does.
func TestSlowTablet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &Disks{Latency: time.Millisecond, Bounds: map[string][]string{"t": {"m"}}}
		_, tbl := inMemory(t, OnDisks(d))
		check := func(what string, want time.Duration, do func() error) {
			t.Helper()
			began := time.Now()
			if err := do(); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			if took := time.Since(began); took != want {
				t.Errorf("%s: %v, want %v", what, took, want)
			}
		}
		read := func(row string) func() error {
			return func() error { _, err := tbl.ReadRow(t.Context(), row); return err }
		}
		bulk := func() error {
			_, err := tbl.ApplyBulk(t.Context(), []string{"a", "m", "z"}, []*bigtable.Mutation{setOne(), setOne(), setOne()})
			return err
		}
		scan := func() error {
			return tbl.ReadRows(t.Context(), bigtable.InfiniteRange(""), func(bigtable.Row) bool { return true })
		}
		d.Slow("t", "x", time.Second)
		check("a read of another", time.Millisecond, read("l"))
		check("a read", 1001*time.Millisecond, read("m"))
		check("a mutation", 1001*time.Millisecond, func() error { return tbl.Apply(t.Context(), "m", setOne()) })
		check("rows of both", 1002*time.Millisecond, bulk)
		check("a scan of both", 1002*time.Millisecond, scan)
		d.Split("t", "t")
		for range 2 { // the halves are loaded
			_ = bulk()
		}
		check("a part of it", 1001*time.Millisecond, read("t"))
		d.Slow("t", "t", 0)
		check("a part that is quick again", time.Millisecond, read("t"))
	})
}

// TestUnloadedTablet: what needs it is refused until it is loaded, and nothing else is.
func TestUnloadedTablet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &Disks{Bounds: map[string][]string{"t": {"m"}}}
		_, tbl := inMemory(t, OnDisks(d))
		load := d.Unload("t", "a")
		for range 5 {
			if _, code := write(t, tbl); code != codes.OK { // of the row "r"
				t.Errorf("another: %v", code)
			}
		}
		began := time.Now()
		time.AfterFunc(5*time.Second, load)
		if err := tbl.Apply(t.Context(), "a", setOne()); err != nil { // Google's client repeats it
			t.Errorf("a mutation: %v", err)
		}
		if took := time.Since(began); took < 5*time.Second || took > 10*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}
