package capacity

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"time"

	"sigs.k8s.io/yaml"
)

// Workload is what an instance has to hold and to do, in steady state.
type Workload struct {
	Rows     float64 `json:"rows"`
	RowBytes float64 `json:"rowBytes"` // of values in a row
	Columns  float64 `json:"columns"`  // among which these are divided
	KeyBytes float64 `json:"keyBytes"` // of a row key and a column's name together

	// Rows that transactions write in a second, without observers.
	Changes            float64 `json:"changes"`
	RowsPerTransaction float64 `json:"rowsPerTransaction"` // that such a transaction writes
	ReadsPerChange     float64 `json:"readsPerChange"`     // rows that it reads for each
	Blind              bool    `json:"blind"`              // uses percolator.Blind, and reads none

	Observers      float64 `json:"observers"`      // runs for a change, one after the other
	ObserverReads  float64 `json:"observerReads"`  // rows that a run reads beside the changed one
	ObserverWrites float64 `json:"observerWrites"` // rows that it writes beside the changed one
	// Runs that share a commit; 1 where few are ready at the same time.
	RunsTogether float64 `json:"runsTogether"`

	Reads           float64 `json:"reads"`           // rows that snapshots read in a second
	RowsPerSnapshot float64 `json:"rowsPerSnapshot"` // for one timestamp
	// Rows of a ReadRows: reads that are sent together.
	Batch float64 `json:"batch"`

	Retention Duration `json:"retention"`
	// Between cycles; 0: a twelfth of Retention.
	CollectorInterval Duration `json:"collectorInterval"`
	CollectorRows     float64  `json:"collectorRows"` // pace of each collector in rows a second
	// Workers that share erasing by the journal.
	Collectors     float64  `json:"collectors"`
	DisableJournal bool     `json:"disableJournal"` // work and garbage are found by passes
	JournalBatch   float64  `json:"journalBatch"`   // transactions whose entries share a row
	SweepInterval  Duration `json:"sweepInterval"`  // between sweeps, with a journal; 0: none
	// Between passes of all scanners, without a journal; 0: none.
	ScanInterval   Duration `json:"scanInterval"`
	BackupInterval Duration `json:"backupInterval"` // of percolator backup; 0: none
	Backups        float64  `json:"backups"`        // of percolator backup that are kept
	TableBackups   float64  `json:"tableBackups"`   // of Bigtable's own that are kept

	OracleRecord string `json:"oracleRecord"` // where the oracle keeps it: spanner or bigtable
}

// Duration is a time.Duration that reads as text, such as 1h30m.
type Duration struct{ time.Duration }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) (err error) {
	d.Duration, err = time.ParseDuration(string(text))
	return err
}

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// DefaultWorkload has no rows and no changes yet.
func DefaultWorkload() Workload {
	return Workload{
		RowBytes: 1000, Columns: 1, KeyBytes: 40, RowsPerTransaction: 1, ReadsPerChange: 1, RunsTogether: 1, RowsPerSnapshot: 1, Batch: 1,
		Retention: Duration{time.Hour}, CollectorRows: 5_000, Collectors: 1, JournalBatch: 1,
		SweepInterval: Duration{7 * 24 * time.Hour}, ScanInterval: Duration{10 * time.Minute},
		BackupInterval: Duration{24 * time.Hour}, Backups: 7, TableBackups: 7, OracleRecord: "spanner",
	}
}

// Parse replaces what a YAML file says.
func (w *Workload) Parse(text []byte) error { return yaml.UnmarshalStrict(text, w) }

// Times is the workload with so many times the rows, changes and reads.
func (w Workload) Times(n float64) Workload {
	w.Rows, w.Changes, w.Reads = w.Rows*n, w.Changes*n, w.Reads*n
	return w
}

func (w Workload) validate() error {
	var wrong []error
	fields := reflect.ValueOf(w)
	for i := range fields.NumField() {
		name, v := fields.Type().Field(i).Tag.Get("json"), 0.0
		switch of := fields.Field(i).Interface().(type) {
		case float64:
			v = of
		case Duration:
			v = of.Seconds()
		}
		least := 0.0
		switch name {
		case "rows", "columns", "keyBytes", "rowsPerTransaction", "runsTogether", "rowsPerSnapshot", "batch", "collectorRows", "collectors", "journalBatch":
			least = 1
		case "retention":
			least = 60
		}
		if !(v >= least) || math.IsInf(v, 0) {
			wrong = append(wrong, fmt.Errorf("%s is %v: at least %v", name, v, least))
		}
	}
	if w.Blind && w.ReadsPerChange > 0 {
		wrong = append(wrong, errors.New("blind transactions read nothing: readsPerChange must be 0"))
	}
	if w.OracleRecord != "spanner" && w.OracleRecord != "bigtable" {
		wrong = append(wrong, fmt.Errorf("oracleRecord is %q: spanner or bigtable", w.OracleRecord))
	}
	return errors.Join(wrong...)
}

// Requests are requests, rows and timestamps, in a second.
type Requests struct {
	Transactions      float64 `json:"transactions"` // that write
	Timestamps        float64 `json:"timestamps"`
	ReadRows          float64 `json:"ReadRows"`
	RowsRead          float64 `json:"rowsRead"`
	CheckAndMutateRow float64 `json:"CheckAndMutateRow"`
	MutateRows        float64 `json:"MutateRows"` // at most: transactions share phase two
	RowsMutated       float64 `json:"rowsMutated"`
	// Appended, each by its own MutateRows beside those above.
	JournalRows float64 `json:"journalRows"`
}

// rowsPerMutateRows is the most rows that one request names (docs/internals/PROTOCOL.md, By
// tablet).
const rowsPerMutateRows = 512

// batchBytes bounds a row of the journal (docs/internals/PROTOCOL.md, The journal).
const batchBytes = 1 << 20

// recentRows is how many rows a client can tell apart that it wrote lately.
const recentRows = 1 << 14

// restarts is the share of blind transactions that ask for another start timestamp, because their
// client takes one of their rows for one of those that it wrote just before.
func (w Workload) restarts() float64 {
	if !w.Blind {
		return 0
	}
	return 1 - math.Pow(1-min(w.RowsPerTransaction/recentRows, 1), w.RowsPerTransaction)
}

// transactions is what n transactions a second ask for, of which each reads and writes rows.
func (w Workload) transactions(n, read, written float64) Requests {
	secondaries := max(written-1, 0)
	return Requests{
		Transactions: n, Timestamps: 2 * n,
		ReadRows: n * read / w.Batch, RowsRead: n * read,
		CheckAndMutateRow: n * (written + 1), // the prewrites, and the commit point
		MutateRows:        n * math.Ceil(secondaries/rowsPerMutateRows), RowsMutated: n * secondaries,
		JournalRows: n * w.journalRows(written),
	}
}

// journalRows is how many rows of the journal the entry of a transaction takes. A client sends an
// entry at once unless its streams are busy, so few share a row where clients are many.
func (w Workload) journalRows(written float64) float64 {
	if w.DisableJournal {
		return 0
	}
	return max(1/w.JournalBatch, w.entryBytes(written)/batchBytes)
}

// entryBytes is how long an entry is at most: its head, the primary, the keys of the rows.
func (w Workload) entryBytes(written float64) float64 {
	const head, flags = 16, 3
	return head + w.KeyBytes + written*(w.KeyBytes+flags)
}

// named is how many rows the entries of a second name, in each one's own count.
func (w Workload) named() float64 { return w.Changes + w.Changes*w.Observers*(1+w.ObserverWrites) }

// valued is how many rows get values in a second.
func (w Workload) valued() float64 { return w.Changes + w.Changes*w.Observers*w.ObserverWrites }

// Requests is what the transactions, the runs of observers and the snapshots ask for.
func (w Workload) Requests() Requests {
	own := w.transactions(w.Changes/w.RowsPerTransaction, w.ReadsPerChange*w.RowsPerTransaction, w.RowsPerTransaction)
	own.Timestamps += own.Transactions * w.restarts()
	// Add the changed row: a read of its cell, a write of its acknowledgment.
	k := w.RunsTogether
	runs := w.transactions(w.Changes*w.Observers/k, k*(1+w.ObserverReads), k*(1+w.ObserverWrites))
	return Requests{
		Transactions: own.Transactions + runs.Transactions,
		Timestamps:   own.Timestamps + runs.Timestamps + w.Reads/w.RowsPerSnapshot,
		ReadRows:     own.ReadRows + runs.ReadRows + w.Reads/w.Batch, RowsRead: own.RowsRead + runs.RowsRead + w.Reads,
		CheckAndMutateRow: own.CheckAndMutateRow + runs.CheckAndMutateRow,
		MutateRows:        own.MutateRows + runs.MutateRows, RowsMutated: own.RowsMutated + runs.RowsMutated,
		JournalRows: own.JournalRows + runs.JournalRows,
	}
}
