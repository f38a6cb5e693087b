package percolator_test

import (
	"testing"

	"github.com/gopercolator/percolator/percolator"
)

func TestBuffered(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	ctx := testContext(t)
	at := func(column string) percolator.Cell { return percolator.Cell{Table: "t", Row: "r", Column: column} }
	blind := mustBegin(t, ctx, env.Client, percolator.Blind())
	must(t, blind.Set(at("set"), []byte("1")))
	must(t, blind.Set(at("set"), []byte("2")))
	must(t, blind.Set(at("empty"), nil))
	must(t, blind.Delete(at("gone")))
	for column, want := range map[string]struct {
		value   []byte
		written bool
	}{"set": {[]byte("2"), true}, "empty": {[]byte{}, true}, "gone": {nil, true}, "other": {nil, false}} {
		value, written, err := blind.Buffered(at(column))
		must(t, err)
		if string(value) != string(want.value) || (value == nil) != (want.value == nil) || written != want.written {
			t.Errorf("%s: %q, %v, want %q, %v", column, value, written, want.value, want.written)
		}
	}
	reading := mustBegin(t, ctx, env.Client)
	if _, err := reading.GetForUpdate(ctx, at("other")); err == nil {
		t.Error("there is a value")
	}
	if _, written, err := reading.Buffered(at("other")); written || err != nil {
		t.Errorf("a lock counts as a write: %v, %v", written, err)
	}
	if !blind.IsBlind() || reading.IsBlind() {
		t.Error("IsBlind is wrong")
	}
	must(t, blind.Rollback(ctx))
	_, _, err := blind.Buffered(at("set"))
	wantErr(t, err, percolator.ErrTxnDone)
}
