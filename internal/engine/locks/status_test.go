package locks

import (
	"errors"
	"testing"
	"time"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

func lockAt(ts tso.Timestamp) layout.LockRecord {
	return layout.LockRecord{StartTS: ts, Kind: layout.KindPut, Primary: model.Cell{Table: "t", Row: "p", Column: "c"}, Placed: ts, TTL: time.Second}
}

func rec(commit, start tso.Timestamp, k layout.Kind) layout.WriteRecord {
	return layout.WriteRecord{CommitTS: commit, StartTS: start, Kind: k}
}

func marker(ts tso.Timestamp) layout.WriteRecord {
	return layout.WriteRecord{CommitTS: ts, StartTS: ts, Kind: layout.KindRollback}
}

func TestStatusOf(t *testing.T) {
	t.Parallel()
	primary := model.Cell{Table: "t", Row: "p", Column: "c"}
	elsewhere := lockAt(50)
	elsewhere.Primary.Row = "q"
	type v = layout.Versions
	for name, c := range map[string]struct {
		v       *layout.Versions
		state   TxnState
		commit  tso.Timestamp
		corrupt bool
	}{
		"nothing":                 {nil, TxnUnknown, 0, false},
		"no versions":             {&v{}, TxnUnknown, 0, false},
		"a lock":                  {&v{Locks: []layout.LockRecord{lockAt(50)}}, TxnLocked, 0, false},
		"another's lock":          {&v{Locks: []layout.LockRecord{lockAt(49)}}, TxnUnknown, 0, false},
		"put":                     {&v{Writes: []layout.WriteRecord{rec(60, 50, layout.KindPut)}}, TxnCommitted, 60, false},
		"delete":                  {&v{Writes: []layout.WriteRecord{rec(60, 50, layout.KindDelete)}}, TxnCommitted, 60, false},
		"lock record":             {&v{Writes: []layout.WriteRecord{rec(60, 50, layout.KindLock)}}, TxnCommitted, 60, false},
		"marker":                  {&v{Writes: []layout.WriteRecord{marker(50)}}, TxnRolledBack, 0, false},
		"another's record at 50":  {&v{Writes: []layout.WriteRecord{rec(50, 40, layout.KindPut)}}, TxnUnknown, 0, false},
		"another's record":        {&v{Writes: []layout.WriteRecord{rec(60, 55, layout.KindPut)}}, TxnUnknown, 0, false},
		"below another's":         {&v{Writes: []layout.WriteRecord{rec(70, 65, layout.KindPut), rec(60, 50, layout.KindPut)}}, TxnCommitted, 60, false},
		"a record beats a lock":   {&v{Locks: []layout.LockRecord{lockAt(50)}, Writes: []layout.WriteRecord{rec(60, 50, layout.KindPut)}}, TxnCommitted, 60, false},
		"a lock that points away": {&v{Locks: []layout.LockRecord{elsewhere}}, TxnUnknown, 0, true},
	} {
		d, err := StatusOf(primary, 50, c.v)
		if d.State != c.state || d.CommitTS != c.commit || errors.Is(err, model.ErrCorrupt) != c.corrupt {
			t.Errorf("%s: %+v, %v; want state %d at %d, corrupt %v", name, d, err, c.state, c.commit, c.corrupt)
		}
	}
}

// FuzzStatusOf takes whole rows to the status of a transaction: bytes that others wrote give an
// error or an answer, never a panic.
func FuzzStatusOf(f *testing.F) {
	lock := layout.LockRecord{StartTS: 5, Kind: layout.KindPut, Primary: model.Cell{Table: "t", Row: "r", Column: "c"}, Placed: 6, TTL: time.Second}
	f.Add("c", int64(5000), lock.Encode(), int64(7000), layout.EncodeWrite(5, layout.KindPut), int64(5000), []byte("v"))
	f.Add("", int64(0), []byte{}, int64(-1), []byte{}, int64(1), []byte{})
	f.Add(":\x00\xff", int64(5000), lock.Encode()[:12], int64(5000), layout.EncodeWrite(5, layout.KindRollback), int64(1500), []byte("v"))
	f.Fuzz(func(t *testing.T, column string, lockTS int64, lock []byte, writeTS int64, write []byte, dataTS int64, data []byte) {
		v := layout.DecodeRow("t", layout.Row{Key: "r", Items: []layout.Item{
			{Family: layout.LockFamily, Column: column, Timestamp: lockTS, Value: lock},
			{Family: layout.WriteFamily, Column: column, Timestamp: writeTS, Value: write},
			{Family: layout.DataFamily, Column: column, Timestamp: dataTS, Value: data},
		}})[column]
		if v == nil || v.Corrupt != nil {
			return
		}
		primary := model.Cell{Table: "t", Row: "r", Column: column}
		if _, err := StatusOf(primary, v.Locks[0].StartTS, v); err != nil && v.Locks[0].Primary == primary {
			t.Errorf("status of %+v: %v", v.Locks[0], err)
		}
	})
}
