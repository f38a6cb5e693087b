package store_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/internal/testing/layertest"
	"github.com/gopercolator/percolator/percolator/model"
)

// compared is a cell that a test replaces.
type compared struct {
	*testing.T
	store       *store.Store
	row, column string
}

func newCompared(t *testing.T) compared {
	t.Parallel()
	return compared{t, layertest.New(t, layertest.StartEmulator(t), "i").Store, "r", "state"}
}

// replaces reports whether next took the place of old.
func (c compared) replaces(old, next []byte) bool {
	c.Helper()
	swapped, err := c.store.CompareAndSet(c.Context(), c.row, c.column, old, next)
	if err != nil {
		c.Fatalf("%d bytes instead of %d: %v", len(next), len(old), err)
	}
	return swapped
}

func (c compared) want(value []byte) {
	c.Helper()
	row, err := c.store.ReadRow(c.Context(), model.MetaTable, c.row, store.Cells(c.column, 0))
	if err != nil || len(row.Items) != 1 || string(row.Items[0].Value) != string(value) {
		c.Fatalf("%v: the row is not %d bytes", err, len(value))
	}
}

// plant stores what a client of any version may have stored.
func (c compared) plant(value []byte) {
	c.Helper()
	mut := store.NewMutation(1)
	mut.Put(layout.MetaFamily, c.column, store.MetaTimestamp, value)
	if err := c.store.Mutate(c.Context(), model.MetaTable, c.row, mut); err != nil {
		c.Fatal(err)
	}
}

// object is a JSON object of n bytes; its last byte but two is what.
func object(n int, what byte) []byte {
	const frame = len(`{"seq":"x"}`)
	return fmt.Appendf(nil, `{"seq":"%s%c"}`, strings.Repeat("s", n-frame), what)
}

// lengths are those at which something changes, and others: the greatest is that of a large state
// of the collector (J10).
var lengths = []int{20, store.MaxCompared - 1, store.MaxCompared, store.MaxCompared + 1, 10_200, 10_220, 10_300, 20 << 10, 64 << 10, 6 << 20}

// A value of any length is replaced by those who know it, and by no others (J10).
func TestReplacingValuesOfAllLengths(t *testing.T) {
	c := newCompared(t)
	var now []byte
	for _, n := range append(lengths, 20) {
		next := store.Comparable(object(n, 'a'))
		if again := store.Comparable(object(n, 'a')); (string(again) != string(next)) != (n > store.MaxCompared) {
			t.Errorf("two writes of %d bytes: equal is %v", n, string(again) == string(next))
		}
		if !c.replaces(now, next) {
			t.Errorf("%d bytes instead of %d: refused", len(next), len(now))
		}
		c.want(next)
		for _, other := range [][]byte{now, nil, store.Comparable(object(n, 'b'))} {
			if c.replaces(other, next) {
				t.Errorf("%d bytes were replaced on the condition of %d others", len(next), len(other))
			}
		}
		if n > store.MaxCompared && c.replaces(store.Comparable(object(n, 'a')), next) {
			t.Errorf("%d bytes were taken for those of another write", len(next))
		}
		var decoded struct {
			Seq string `json:"seq"`
		}
		if err := json.Unmarshal(next, &decoded); err != nil || !strings.HasSuffix(decoded.Seq, "a") {
			t.Errorf("%d bytes of JSON: %v", len(next), err)
		}
		now = next
	}
}

// Long values without a nonce, of clients of earlier versions, are replaced as well, and whole
// where those clients could replace them too (J10).
func TestReplacingLongValuesOfEarlierVersions(t *testing.T) {
	c := newCompared(t)
	for _, n := range lengths {
		was, next := object(n, 'a'), store.Comparable(object(n, 'c'))
		c.plant(was)
		if c.replaces(object(n, 'b'), next) {
			t.Errorf("%d bytes were replaced on the condition of others", n)
		}
		c.want(was)
		if !c.replaces(was, next) {
			t.Errorf("%d bytes: refused", n)
		}
		c.want(next)
		if c.replaces(was, next) {
			t.Errorf("%d bytes were replaced twice", n)
		}
	}
}

// What a client of an earlier version has put in the place of a long value matches no condition on
// that value: it keeps the object, and drops the nonce (J10).
func TestEarlierVersionBetweenAReadAndAReplacement(t *testing.T) {
	c := newCompared(t)
	for _, n := range lengths {
		read := store.Comparable(object(n, 'a'))
		c.plant(read)
		c.plant(object(n, 'b'))
		if c.replaces(read, store.Comparable(object(n, 'c'))) {
			t.Errorf("%d bytes were replaced by one who had not read them", n)
		}
	}
}

// What no condition could compare is refused before it is stored.
func TestIncomparableValuesAreRefused(t *testing.T) {
	c := newCompared(t)
	if !c.replaces(nil, object(store.MaxCompared, 'a')) {
		t.Error("refused")
	}
	for _, n := range []int{store.MaxCompared + 1, 64 << 10} {
		if _, err := c.store.CompareAndSet(t.Context(), c.row, c.column, object(store.MaxCompared, 'a'), object(n, 'b')); !errors.Is(err, model.ErrTooLarge) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	c.want(object(store.MaxCompared, 'a'))
}

// Values of any bytes come back as they are, also those of earlier versions.
func TestComparableBytes(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, store.MaxCompared, store.MaxCompared + 1, 16 << 10} {
		value := []byte(strings.Repeat("\x00{", n)[:n])
		stored := store.ComparableBytes(value)
		if got := store.ComparedBytes(stored); string(got) != string(value) {
			t.Errorf("%d bytes come back as %d", n, len(got))
		}
		if (len(stored) > n) != (n > store.MaxCompared) {
			t.Errorf("%d bytes are stored as %d", n, len(stored))
		}
		if got := store.ComparedBytes(value); string(got) != string(value) {
			t.Errorf("%d bytes as an earlier version has stored them come back as %d", n, len(got))
		}
		// One that has the form of a stored one by itself.
		if again := store.ComparableBytes(stored); string(store.ComparedBytes(again)) != string(stored) {
			t.Errorf("%d bytes that begin with a nonce do not come back", len(stored))
		}
	}
}
