package layout

import (
	"testing"
	"time"

	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

func lockAt(ts tso.Timestamp) LockRecord {
	return LockRecord{StartTS: ts, Kind: KindPut, Primary: model.Cell{Table: "t", Row: "p", Column: "c"}, Placed: ts, TTL: time.Second}
}

func rec(commit, start tso.Timestamp, k Kind) WriteRecord {
	return WriteRecord{CommitTS: commit, StartTS: start, Kind: k}
}

func marker(ts tso.Timestamp) WriteRecord {
	return WriteRecord{CommitTS: ts, StartTS: ts, Kind: KindRollback}
}

func data(ts tso.Timestamp, v string) DataVersion { return DataVersion{ts, []byte(v)} }

// What a snapshot at 100 sees. Versions are newest first, as the store returns them.
func TestVersionsAt(t *testing.T) {
	t.Parallel()
	type v = Versions
	for name, c := range map[string]struct {
		v      *Versions
		window int
		want   view
	}{
		"nothing":             {nil, 1, view{State: ViewAbsent}},
		"no versions":         {&v{}, 1, view{State: ViewAbsent}},
		"a value":             {&v{Writes: []WriteRecord{rec(90, 80, KindPut)}, Data: []DataVersion{data(80, "x")}}, 1, view{State: ViewValue, Record: rec(90, 80, KindPut), Value: []byte("x")}},
		"committed at 100":    {&v{Writes: []WriteRecord{rec(100, 80, KindPut)}, Data: []DataVersion{data(80, "x")}}, 1, view{State: ViewValue, Record: rec(100, 80, KindPut), Value: []byte("x")}},
		"a deletion":          {&v{Writes: []WriteRecord{rec(90, 80, KindDelete)}, Data: []DataVersion{data(70, "old")}}, 1, view{State: ViewAbsent, Record: rec(90, 80, KindDelete)}},
		"data only":           {&v{Data: []DataVersion{data(80, "uncommitted")}}, 1, view{State: ViewAbsent}},
		"a lock below":        {&v{Locks: []LockRecord{lockAt(99)}, Writes: []WriteRecord{rec(90, 80, KindPut)}, Data: []DataVersion{data(80, "x")}}, 1, view{State: ViewLocked, Lock: lockAt(99)}},
		"a lock at 100":       {&v{Locks: []LockRecord{lockAt(100)}}, 1, view{State: ViewLocked, Lock: lockAt(100)}},
		"a lock above":        {&v{Locks: []LockRecord{lockAt(101)}, Writes: []WriteRecord{rec(90, 80, KindPut)}, Data: []DataVersion{data(80, "x")}}, 1, view{State: ViewValue, Record: rec(90, 80, KindPut), Value: []byte("x")}},
		"the guess missed":    {&v{Writes: []WriteRecord{rec(90, 80, KindPut)}, Data: []DataVersion{data(95, "uncommitted")}}, 1, view{State: ViewNeedData, Record: rec(90, 80, KindPut)}},
		"the guess is older":  {&v{Writes: []WriteRecord{rec(90, 80, KindPut)}, Data: []DataVersion{data(70, "old")}}, 1, view{State: ViewNeedData, Record: rec(90, 80, KindPut)}},
		"no data":             {&v{Writes: []WriteRecord{rec(90, 80, KindPut)}}, 1, view{State: ViewNeedData, Record: rec(90, 80, KindPut)}},
		"the second data":     {&v{Writes: []WriteRecord{rec(90, 80, KindPut)}, Data: []DataVersion{data(95, "uncommitted"), data(80, "x")}}, 2, view{State: ViewValue, Record: rec(90, 80, KindPut), Value: []byte("x")}},
		"a marker fills it":   {&v{Writes: []WriteRecord{marker(95)}, Data: []DataVersion{data(80, "x")}}, 1, view{State: ViewDeeper}},
		"a lock record fills": {&v{Writes: []WriteRecord{rec(95, 94, KindLock)}}, 1, view{State: ViewDeeper}},
		"room for more":       {&v{Writes: []WriteRecord{marker(95)}}, 2, view{State: ViewAbsent}},
		"below a marker":      {&v{Writes: []WriteRecord{marker(95), rec(90, 80, KindPut)}, Data: []DataVersion{data(80, "x")}}, 2, view{State: ViewValue, Record: rec(90, 80, KindPut), Value: []byte("x")}},
		"below both sorts":    {&v{Writes: []WriteRecord{marker(95), rec(94, 93, KindLock), rec(90, 80, KindDelete)}}, 3, view{State: ViewAbsent, Record: rec(90, 80, KindDelete)}},
		// A batch has no upper bound.
		"above, more below": {&v{Writes: []WriteRecord{rec(120, 110, KindPut), rec(105, 104, KindPut)}, Data: []DataVersion{data(110, "new"), data(104, "new")}}, 2, view{State: ViewDeeper}},
		"above, no more":    {&v{Writes: []WriteRecord{rec(120, 110, KindPut)}, Data: []DataVersion{data(110, "new")}}, 2, view{State: ViewAbsent}},
		"above and below":   {&v{Writes: []WriteRecord{rec(120, 110, KindPut), rec(90, 80, KindPut)}, Data: []DataVersion{data(110, "new"), data(80, "x")}}, 2, view{State: ViewValue, Record: rec(90, 80, KindPut), Value: []byte("x")}},
		"data crowded out":  {&v{Writes: []WriteRecord{rec(120, 110, KindPut), rec(90, 80, KindPut)}, Data: []DataVersion{data(130, "uncommitted"), data(110, "new")}}, 2, view{State: ViewNeedData, Record: rec(90, 80, KindPut)}},
		"a marker above":    {&v{Writes: []WriteRecord{marker(130), rec(90, 80, KindDelete)}}, 2, view{State: ViewAbsent, Record: rec(90, 80, KindDelete)}},
		"start below, commit above": {&v{Writes: []WriteRecord{rec(101, 80, KindPut), rec(70, 60, KindPut)}, Data: []DataVersion{data(80, "new"), data(60, "x")}}, 2,
			view{State: ViewValue, Record: rec(70, 60, KindPut), Value: []byte("x")}},
	} {
		got := c.v.At(100, c.window)
		if got.State != c.want.State || got.Lock != c.want.Lock || got.Record != c.want.Record || string(got.Value) != string(c.want.Value) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestLastRun(t *testing.T) {
	t.Parallel()
	type v = Versions
	for name, c := range map[string]struct {
		v      *Versions
		window int
		last   tso.Timestamp
		locked bool
		deeper bool
	}{
		"never":                  {nil, 1, 0, false, false},
		"a run":                  {&v{Writes: []WriteRecord{rec(90, 80, KindLock)}}, 1, 80, false, false},
		"a run at 100":           {&v{Writes: []WriteRecord{rec(100, 80, KindLock)}}, 1, 80, false, false},
		"a run above":            {&v{Writes: []WriteRecord{rec(101, 80, KindLock), rec(90, 70, KindLock)}}, 2, 70, false, false},
		"a rolled back run":      {&v{Writes: []WriteRecord{marker(95), rec(90, 80, KindLock)}}, 2, 80, false, false},
		"a marker fills it":      {&v{Writes: []WriteRecord{marker(95)}}, 1, 0, false, true},
		"a marker, room to more": {&v{Writes: []WriteRecord{marker(95)}}, 4, 0, false, false},
		"a run under way":        {&v{Locks: []LockRecord{lockAt(95)}, Writes: []WriteRecord{rec(90, 80, KindLock)}}, 1, 0, true, false},
		"a run that begins":      {&v{Locks: []LockRecord{lockAt(101)}, Writes: []WriteRecord{rec(90, 80, KindLock)}}, 1, 80, false, false},
	} {
		last, lock, deeper := c.v.LastRun(100, c.window)
		if last != c.last || (lock != nil) != c.locked || deeper != c.deeper {
			t.Errorf("%s: %d, %v, %v; want %d, %v, %v", name, last, lock, deeper, c.last, c.locked, c.deeper)
		}
	}
}
