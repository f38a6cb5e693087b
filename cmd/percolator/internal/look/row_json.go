package look

import (
	"time"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// inspectionJSON is what "row" prints for programs. Names are as shown, timestamps 0 where there is
// none.
type inspectionJSON struct {
	Table       string            `json:"table"`
	Row         string            `json:"row"`
	Now         tso.Timestamp     `json:"now"`
	NowTime     time.Time         `json:"nowTime"`
	AsOf        tso.Timestamp     `json:"asOf"`
	Safepoint   tso.Timestamp     `json:"safepoint"`
	GCWatermark tso.Timestamp     `json:"gcWatermark"`
	Truncated   string            `json:"truncated"` // what is left out apart from versions
	Columns     []inspectedColumn `json:"columns"`
	Journal     *namedInJSON      `json:"journal,omitempty"` // with --journal
}

type inspectedColumn struct {
	Column string `json:"column"`
	// Absent for bytes and undeclared columns.
	Type           percolator.Type     `json:"type,omitempty"`
	Observed       bool                `json:"observed"`
	Weak           bool                `json:"weak"`
	More           bool                `json:"more"` // older versions than --versions shows
	Reader         readerJSON          `json:"reader"`
	Versions       []inspectedVersion  `json:"versions"`
	Acks           []ackJSON           `json:"acks"`
	ObserverStates []observerStateJSON `json:"observerStates"`
}

// readerJSON is what a reader finds. The value is there with --values.
type readerJSON struct {
	State  string        `json:"state"`
	Commit tso.Timestamp `json:"commit"`
	Start  tso.Timestamp `json:"start"`
	Size   *int64        `json:"size,omitempty"`
	cli.ValueJSON
	Resolves string `json:"resolves,omitempty"` // what becomes of the lock in the way
	Reason   string `json:"reason,omitempty"`
}

type inspectedVersion struct {
	Timestamp   tso.Timestamp     `json:"timestamp"`
	Time        time.Time         `json:"time"`
	Data        *dataJSON         `json:"data,omitempty"`
	Lock        *lockJSON         `json:"lock,omitempty"`
	Write       *recordJSON       `json:"write,omitempty"`
	Notify      bool              `json:"notify,omitempty"`
	Undecodable []undecodableJSON `json:"undecodable,omitempty"`
}

type dataJSON struct {
	Size   *int64        `json:"size"` // null: not read
	Commit tso.Timestamp `json:"commit"`
	cli.ValueJSON
}

type recordJSON struct {
	Kind        string        `json:"kind"`
	Start       tso.Timestamp `json:"start"`
	DataMissing bool          `json:"dataMissing,omitempty"`
}

type undecodableJSON struct {
	Family string `json:"family"`
	Micros int64  `json:"micros"` // Bigtable's timestamp
	Size   *int64 `json:"size"`
	Reason string `json:"reason"`
}

type ackJSON struct {
	Observer    string            `json:"observer"`
	RanAt       tso.Timestamp     `json:"ranAt"`
	CommittedAt tso.Timestamp     `json:"committedAt"`
	Due         bool              `json:"due"`
	Lock        *lockJSON         `json:"lock,omitempty"`
	Undecodable []undecodableJSON `json:"undecodable,omitempty"`
}

type observerStateJSON struct {
	Observer string        `json:"observer"`
	Done     bool          `json:"done"`
	Through  tso.Timestamp `json:"through"`
	Attempts int           `json:"attempts,omitempty"`
	Since    *time.Time    `json:"since,omitempty"`
	Reason   string        `json:"reason,omitempty"`
}

func newInspectionJSON(in admin.RowInspection) inspectionJSON {
	return inspectionJSON{
		Table: in.Table, Row: cli.Shown(in.Row), Now: in.Now, NowTime: in.Now.Time(), AsOf: in.AsOf,
		Safepoint: in.Safepoint, GCWatermark: in.Watermark, Truncated: in.Truncated, Columns: ordered.Map(in.Columns, newInspectedColumn),
	}
}

func newInspectedColumn(col admin.ColumnInspection) inspectedColumn {
	out := inspectedColumn{
		Column: cli.Shown(col.Column), Observed: col.Observed, Weak: col.Weak, More: col.More, Reader: newReaderJSON(col.Type, col.Reader),
		Versions: ordered.Map(col.Versions, func(v admin.VersionInspection) inspectedVersion { return newInspectedVersion(col.Type, v) }), Acks: ordered.Map(col.Acks, newAckJSON),
		ObserverStates: ordered.Map(col.States, newObserverStateJSON),
	}
	if col.Type != percolator.TypeBytes {
		out.Type = col.Type
	}
	return out
}

func newAckJSON(a admin.AckInspection) ackJSON {
	return ackJSON{cli.Shown(a.Observer), a.RanAt, a.CommittedAt, a.Due, newLockJSON(a.Lock), ordered.Map(a.Undecodable, newUndecodableJSON)}
}

func newObserverStateJSON(s model.ObserverState) observerStateJSON {
	out := observerStateJSON{Observer: cli.Shown(s.Observer), Done: s.Done, Through: s.Through, Attempts: s.Attempts, Reason: s.Reason}
	if !s.Done {
		out.Since = &s.Since
	}
	return out
}

func newReaderJSON(t percolator.Type, r admin.ReaderView) readerJSON {
	out := readerJSON{State: string(r.State), Commit: r.CommitTS, Start: r.StartTS, Reason: r.Reason}
	if r.State == admin.ReaderValue {
		out.Size = known(r.Size)
		out.ValueJSON = cli.PartJSON(t, r.Value, r.Size)
	}
	if r.Resolves != model.LockAlive {
		out.Resolves = r.Resolves.String()
	}
	return out
}

func newInspectedVersion(t percolator.Type, v admin.VersionInspection) inspectedVersion {
	out := inspectedVersion{
		Timestamp: v.Timestamp, Time: v.Timestamp.Time(), Lock: newLockJSON(v.Lock), Notify: v.Notify,
		Undecodable: ordered.Map(v.Undecodable, newUndecodableJSON),
	}
	if v.Data != nil {
		out.Data = &dataJSON{Size: known(v.Data.Size), Commit: v.Data.CommitTS}
		out.Data.ValueJSON = cli.PartJSON(t, v.Data.Value, v.Data.Size)
	}
	if v.Write != nil {
		out.Write = &recordJSON{v.Write.Kind, v.Write.StartTS, v.Write.DataMissing}
	}
	return out
}

func newUndecodableJSON(u admin.UndecodableCell) undecodableJSON {
	return undecodableJSON{u.Family, u.Timestamp, known(u.Size), u.Reason}
}

// known is nil for a size that was not read.
func known(size int64) *int64 {
	if size < 0 {
		return nil
	}
	return &size
}
