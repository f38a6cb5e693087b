package percolator

import (
	"errors"
	"testing"
	"time"

	"github.com/gopercolator/percolator/tso"
)

func lockAt(ts tso.Timestamp) lockRecord {
	return lockRecord{startTS: ts, kind: kindPut, primary: Cell{"t", "p", "c"}, placed: ts, ttl: time.Second}
}

func rec(commit, start tso.Timestamp, k kind) writeRecord { return writeRecord{commit, start, k} }

func marker(ts tso.Timestamp) writeRecord { return writeRecord{ts, ts, kindRollback} }

func data(ts tso.Timestamp, v string) dataVersion { return dataVersion{ts, []byte(v)} }

// What a snapshot at 100 sees. Versions are newest first, as the store returns them.
func TestVersionsAt(t *testing.T) {
	t.Parallel()
	type v = versions
	for name, c := range map[string]struct {
		v      *versions
		window int
		want   view
	}{
		"nothing":             {nil, 1, view{state: viewAbsent}},
		"no versions":         {&v{}, 1, view{state: viewAbsent}},
		"a value":             {&v{writes: []writeRecord{rec(90, 80, kindPut)}, data: []dataVersion{data(80, "x")}}, 1, view{state: viewValue, record: rec(90, 80, kindPut), value: []byte("x")}},
		"committed at 100":    {&v{writes: []writeRecord{rec(100, 80, kindPut)}, data: []dataVersion{data(80, "x")}}, 1, view{state: viewValue, record: rec(100, 80, kindPut), value: []byte("x")}},
		"a deletion":          {&v{writes: []writeRecord{rec(90, 80, kindDelete)}, data: []dataVersion{data(70, "old")}}, 1, view{state: viewAbsent, record: rec(90, 80, kindDelete)}},
		"data only":           {&v{data: []dataVersion{data(80, "uncommitted")}}, 1, view{state: viewAbsent}},
		"a lock below":        {&v{locks: []lockRecord{lockAt(99)}, writes: []writeRecord{rec(90, 80, kindPut)}, data: []dataVersion{data(80, "x")}}, 1, view{state: viewLocked, lock: lockAt(99)}},
		"a lock at 100":       {&v{locks: []lockRecord{lockAt(100)}}, 1, view{state: viewLocked, lock: lockAt(100)}},
		"a lock above":        {&v{locks: []lockRecord{lockAt(101)}, writes: []writeRecord{rec(90, 80, kindPut)}, data: []dataVersion{data(80, "x")}}, 1, view{state: viewValue, record: rec(90, 80, kindPut), value: []byte("x")}},
		"the guess missed":    {&v{writes: []writeRecord{rec(90, 80, kindPut)}, data: []dataVersion{data(95, "uncommitted")}}, 1, view{state: viewNeedData, record: rec(90, 80, kindPut)}},
		"the guess is older":  {&v{writes: []writeRecord{rec(90, 80, kindPut)}, data: []dataVersion{data(70, "old")}}, 1, view{state: viewNeedData, record: rec(90, 80, kindPut)}},
		"no data":             {&v{writes: []writeRecord{rec(90, 80, kindPut)}}, 1, view{state: viewNeedData, record: rec(90, 80, kindPut)}},
		"the second data":     {&v{writes: []writeRecord{rec(90, 80, kindPut)}, data: []dataVersion{data(95, "uncommitted"), data(80, "x")}}, 2, view{state: viewValue, record: rec(90, 80, kindPut), value: []byte("x")}},
		"a marker fills it":   {&v{writes: []writeRecord{marker(95)}, data: []dataVersion{data(80, "x")}}, 1, view{state: viewDeeper}},
		"a lock record fills": {&v{writes: []writeRecord{rec(95, 94, kindLock)}}, 1, view{state: viewDeeper}},
		"room for more":       {&v{writes: []writeRecord{marker(95)}}, 2, view{state: viewAbsent}},
		"below a marker":      {&v{writes: []writeRecord{marker(95), rec(90, 80, kindPut)}, data: []dataVersion{data(80, "x")}}, 2, view{state: viewValue, record: rec(90, 80, kindPut), value: []byte("x")}},
		"below both sorts":    {&v{writes: []writeRecord{marker(95), rec(94, 93, kindLock), rec(90, 80, kindDelete)}}, 3, view{state: viewAbsent, record: rec(90, 80, kindDelete)}},
		// A batch has no upper bound.
		"above, more below": {&v{writes: []writeRecord{rec(120, 110, kindPut), rec(105, 104, kindPut)}, data: []dataVersion{data(110, "new"), data(104, "new")}}, 2, view{state: viewDeeper}},
		"above, no more":    {&v{writes: []writeRecord{rec(120, 110, kindPut)}, data: []dataVersion{data(110, "new")}}, 2, view{state: viewAbsent}},
		"above and below":   {&v{writes: []writeRecord{rec(120, 110, kindPut), rec(90, 80, kindPut)}, data: []dataVersion{data(110, "new"), data(80, "x")}}, 2, view{state: viewValue, record: rec(90, 80, kindPut), value: []byte("x")}},
		"data crowded out":  {&v{writes: []writeRecord{rec(120, 110, kindPut), rec(90, 80, kindPut)}, data: []dataVersion{data(130, "uncommitted"), data(110, "new")}}, 2, view{state: viewNeedData, record: rec(90, 80, kindPut)}},
		"a marker above":    {&v{writes: []writeRecord{marker(130), rec(90, 80, kindDelete)}}, 2, view{state: viewAbsent, record: rec(90, 80, kindDelete)}},
		"start below, commit above": {&v{writes: []writeRecord{rec(101, 80, kindPut), rec(70, 60, kindPut)}, data: []dataVersion{data(80, "new"), data(60, "x")}}, 2,
			view{state: viewValue, record: rec(70, 60, kindPut), value: []byte("x")}},
	} {
		got := c.v.at(100, c.window)
		if got.state != c.want.state || got.lock != c.want.lock || got.record != c.want.record || string(got.value) != string(c.want.value) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestLastRun(t *testing.T) {
	t.Parallel()
	type v = versions
	for name, c := range map[string]struct {
		v      *versions
		window int
		last   tso.Timestamp
		locked bool
		deeper bool
	}{
		"never":                  {nil, 1, 0, false, false},
		"a run":                  {&v{writes: []writeRecord{rec(90, 80, kindLock)}}, 1, 80, false, false},
		"a run at 100":           {&v{writes: []writeRecord{rec(100, 80, kindLock)}}, 1, 80, false, false},
		"a run above":            {&v{writes: []writeRecord{rec(101, 80, kindLock), rec(90, 70, kindLock)}}, 2, 70, false, false},
		"a rolled back run":      {&v{writes: []writeRecord{marker(95), rec(90, 80, kindLock)}}, 2, 80, false, false},
		"a marker fills it":      {&v{writes: []writeRecord{marker(95)}}, 1, 0, false, true},
		"a marker, room to more": {&v{writes: []writeRecord{marker(95)}}, 4, 0, false, false},
		"a run under way":        {&v{locks: []lockRecord{lockAt(95)}, writes: []writeRecord{rec(90, 80, kindLock)}}, 1, 0, true, false},
		"a run that begins":      {&v{locks: []lockRecord{lockAt(101)}, writes: []writeRecord{rec(90, 80, kindLock)}}, 1, 80, false, false},
	} {
		last, lock, deeper := c.v.lastRun(100, c.window)
		if last != c.last || (lock != nil) != c.locked || deeper != c.deeper {
			t.Errorf("%s: %d, %v, %v; want %d, %v, %v", name, last, lock, deeper, c.last, c.locked, c.deeper)
		}
	}
}

func TestDecide(t *testing.T) {
	t.Parallel()
	primary := Cell{"t", "p", "c"}
	elsewhere := lockAt(50)
	elsewhere.primary.Row = "q"
	type v = versions
	for name, c := range map[string]struct {
		v       *versions
		fate    fate
		commit  tso.Timestamp
		corrupt bool
	}{
		"nothing":                 {nil, fateUnknown, 0, false},
		"no versions":             {&v{}, fateUnknown, 0, false},
		"a lock":                  {&v{locks: []lockRecord{lockAt(50)}}, fateLocked, 0, false},
		"another's lock":          {&v{locks: []lockRecord{lockAt(49)}}, fateUnknown, 0, false},
		"put":                     {&v{writes: []writeRecord{rec(60, 50, kindPut)}}, fateCommitted, 60, false},
		"delete":                  {&v{writes: []writeRecord{rec(60, 50, kindDelete)}}, fateCommitted, 60, false},
		"lock record":             {&v{writes: []writeRecord{rec(60, 50, kindLock)}}, fateCommitted, 60, false},
		"marker":                  {&v{writes: []writeRecord{marker(50)}}, fateRolledBack, 0, false},
		"another's record at 50":  {&v{writes: []writeRecord{rec(50, 40, kindPut)}}, fateUnknown, 0, false},
		"another's record":        {&v{writes: []writeRecord{rec(60, 55, kindPut)}}, fateUnknown, 0, false},
		"below another's":         {&v{writes: []writeRecord{rec(70, 65, kindPut), rec(60, 50, kindPut)}}, fateCommitted, 60, false},
		"a record beats a lock":   {&v{locks: []lockRecord{lockAt(50)}, writes: []writeRecord{rec(60, 50, kindPut)}}, fateCommitted, 60, false},
		"a lock that points away": {&v{locks: []lockRecord{elsewhere}}, fateUnknown, 0, true},
	} {
		d, err := decide(primary, 50, c.v)
		if d.fate != c.fate || d.commitTS != c.commit || errors.Is(err, ErrCorrupt) != c.corrupt {
			t.Errorf("%s: %+v, %v; want fate %d at %d, corrupt %v", name, d, err, c.fate, c.commit, c.corrupt)
		}
	}
}

// More markers and lock records above a value than any first window holds.
func TestReadPastManyRecordsThatChangeNothing(t *testing.T) {
	t.Parallel()
	ctx, c := newBareClient(t)
	c.store.plant(t, ctx, "r", writeFamily, "c", 10, encodeWrite(9, kindPut))
	c.store.plant(t, ctx, "r", dataFamily, "c", 9, []byte("v"))
	for i := tso.Timestamp(0); i < 40; i++ {
		c.store.plant(t, ctx, "r", writeFamily, "c", 20+3*i, encodeWrite(20+3*i, kindRollback))
		c.store.plant(t, ctx, "r", writeFamily, "c", 22+3*i, encodeWrite(21+3*i, kindLock))
	}
	for _, ts := range []tso.Timestamp{10, 20, 21, 22, 100, 1000} {
		v, err := newSnapshot(c, ts).Get(ctx, cell("r", "c"))
		if err != nil || string(v) != "v" {
			t.Errorf("at %d: %q, %v", ts, v, err)
		}
	}
	if _, err := newSnapshot(c, 9).Get(ctx, cell("r", "c")); !errors.Is(err, ErrNotFound) {
		t.Errorf("before the commit: %v", err)
	}
}

// A put record whose data is missing is corrupt, unless it is old enough to be the trace of a late phase two.
func TestPutRecordWithoutData(t *testing.T) {
	t.Parallel()
	ctx, c := newBareClient(t)
	c.store.plant(t, ctx, "r", writeFamily, "c", 10, encodeWrite(9, kindPut))
	if _, err := newSnapshot(c, 100).Get(ctx, cell("r", "c")); !errors.Is(err, ErrCorrupt) {
		t.Errorf("above the mark: %v, want corrupt", err)
	}
	mark := func(column string, ts tso.Timestamp) {
		t.Helper()
		mut := newMetaMutation(column, ts)
		if err := c.store.table(metaTable).Apply(ctx, metaRow, mut); err != nil {
			t.Fatal(err)
		}
	}
	mark(metaMark, 10)
	mark(metaSafe, 10)
	if _, err := newSnapshot(c, 100).Get(ctx, cell("r", "c")); !errors.Is(err, ErrNotFound) {
		t.Errorf("at the mark: %v, want not found", err)
	}
	if n := c.Stats().LateRecords; n != 1 {
		t.Errorf("%d late records counted, want 1", n)
	}
	// The age of the snapshot is looked at first: it may have been collected itself.
	mark(metaSafe, 100)
	if _, err := newSnapshot(c, 100).Get(ctx, cell("r", "c")); !errors.Is(err, ErrSnapshotTooOld) {
		t.Errorf("at the safepoint: %v, want too old", err)
	}
	tx, err := c.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.Set(cell("x", "c"), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Commit(ctx); !errors.Is(err, ErrSnapshotTooOld) {
		t.Errorf("commit of a transaction below the safepoint: %v, want too old", err)
	}
}
