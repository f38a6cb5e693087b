package percolator_test

import (
	"testing"

	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
)

func TestBufferedTellsWhatWasWritten(t *testing.T) {
	t.Parallel()
	env := fixture.NewEnv(t)
	ctx := fixture.Context(t)
	at := func(column string) percolator.Cell { return percolator.Cell{Table: "t", Row: "r", Column: column} }
	blind := fixture.MustBegin(t, ctx, env.Client, percolator.Blind())
	fixture.Must(t, blind.Set(at("set"), []byte("1")))
	fixture.Must(t, blind.Set(at("set"), []byte("2")))
	fixture.Must(t, blind.Set(at("empty"), nil))
	fixture.Must(t, blind.Delete(at("gone")))
	for column, want := range map[string]struct {
		value   []byte
		written bool
	}{"set": {[]byte("2"), true}, "empty": {[]byte{}, true}, "gone": {nil, true}, "other": {nil, false}} {
		value, written, err := blind.Buffered(at(column))
		fixture.Must(t, err)
		if string(value) != string(want.value) || (value == nil) != (want.value == nil) || written != want.written {
			t.Errorf("%s: %q, %v, want %q, %v", column, value, written, want.value, want.written)
		}
	}
	reading := fixture.MustBegin(t, ctx, env.Client)
	if _, err := reading.GetForUpdate(ctx, at("other")); err == nil {
		t.Error("there is a value")
	}
	if _, written, err := reading.Buffered(at("other")); written || err != nil {
		t.Errorf("a lock counts as a write: %v, %v", written, err)
	}
	if !blind.IsBlind() || reading.IsBlind() {
		t.Error("IsBlind is wrong")
	}
	fixture.Must(t, blind.Rollback(ctx))
	_, _, err := blind.Buffered(at("set"))
	fixture.WantErr(t, err, percolator.ErrTxnDone)
}
