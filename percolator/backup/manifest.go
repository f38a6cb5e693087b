package backup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// Format is the version of the format that this package writes, and the only one that it reads.
const Format = 1

// The objects of a backup. docs/internals/FORMATS.md describes them.
const (
	planName     = "plan.json"
	manifestName = "manifest.json"
	checksumName = "manifest.json.sha256" // as sha256sum writes it
)

func progressPrefix(id string) string { return "progress/" + id + "/" }

func progressName(id string, rangeIndex, seq int) string {
	return fmt.Sprintf("%s%05d-%06d.json", progressPrefix(id), rangeIndex, seq)
}

func chunkName(table string, rangeIndex, seq int, sum string) string {
	return fmt.Sprintf("chunks/%s/%05d-%06d-%s.zst", table, rangeIndex, seq, sum[:16])
}

// Plan is what a backup sets out to do. It is stored before anything is read, so that a resumed
// backup does the same.
type Plan struct {
	Format       int           `json:"format"`
	ID           string        `json:"id"`
	Snapshot     tso.Timestamp `json:"snapshot"`
	SnapshotTime time.Time     `json:"snapshot_time"` // the same, by the oracle's clock
	Started      time.Time     `json:"started"`       // by the clock of this process
	// As by admin.EncodeSchema, white space aside.
	Schema json.RawMessage `json:"schema"`
	Tables []Table         `json:"tables"`
	// IncompleteIndexes lists, as TABLE.INDEX, those that were not complete at the snapshot. A
	// restore leaves them to BackfillIndex.
	IncompleteIndexes []string `json:"incomplete_indexes,omitempty"`
	// MissedWeak says that weak notifications that were pending at the snapshot may be missing
	// (Options.MissWeak).
	MissedWeak bool `json:"missed_weak,omitempty"`
}

// Table is a table of a backup.
type Table struct {
	Name string `json:"name"`
	// Splits are row keys at which tablets ended at the time of the backup, at most 100. A restore
	// creates the table with them.
	Splits [][]byte `json:"splits,omitempty"`
}

// storedPlan is the object: what only a running backup needs is not in the manifest.
type storedPlan struct {
	Plan
	Hold   holdRecord `json:"hold"`
	Ranges []rowRange `json:"ranges"`
}

// holdRecord is an model.Hold in JSON.
type holdRecord struct {
	ID        string        `json:"id"`
	Timestamp tso.Timestamp `json:"timestamp"`
	Reason    string        `json:"reason"`
}

func (h holdRecord) hold() model.Hold {
	return model.Hold{ID: h.ID, Timestamp: h.Timestamp, Reason: h.Reason}
}

// rowRange is what one worker reads, one chunk after the other. An empty End is unbounded.
type rowRange struct {
	Table string `json:"table"`
	Weak  bool   `json:"weak,omitempty"` // its weak notifications; otherwise everything else
	Start []byte `json:"start,omitempty"`
	End   []byte `json:"end,omitempty"`
}

// Counts count a chunk, a table or a backup.
type Counts struct {
	Rows     int64 `json:"rows"`     // rows with weak notifications count once more
	Values   int64 `json:"values"`   // cells with a value
	Deletes  int64 `json:"deletes"`  // deletions of which an observer may not know
	Weak     int64 `json:"weak"`     // weak notifications
	Notified int64 `json:"notified"` // all cells that workers have to look at
	RawBytes int64 `json:"raw_bytes"`
	Bytes    int64 `json:"bytes"` // as stored
}

// Add adds other to c.
func (c *Counts) Add(other Counts) {
	c.Rows += other.Rows
	c.Values += other.Values
	c.Deletes += other.Deletes
	c.Weak += other.Weak
	c.Notified += other.Notified
	c.RawBytes += other.RawBytes
	c.Bytes += other.Bytes
}

// Chunk is an object with rows of one table, in order.
type Chunk struct {
	Name   string `json:"name"`
	Table  string `json:"table"`
	SHA256 string `json:"sha256"` // of the object, in hexadecimal
	First  []byte `json:"first"`
	Last   []byte `json:"last"`
	Counts
}

// descriptor is stored after a chunk. A range that ends without further rows has a last one without
// a chunk.
type descriptor struct {
	Range int    `json:"range"`
	Seq   int    `json:"seq"`
	From  []byte `json:"from"`           // where the range went on
	Next  []byte `json:"next,omitempty"` // where it goes on after this one
	Done  bool   `json:"done"`
	Chunk *Chunk `json:"chunk,omitempty"`
}

// Manifest describes a complete backup.
type Manifest struct {
	Plan
	Finished time.Time `json:"finished"`
	Chunks   []Chunk   `json:"chunks"`
	Total    Counts    `json:"total"`
}

// DecodeSchema returns the schema with the splits of its tables.
func (p *Plan) DecodeSchema() (*percolator.Schema, error) {
	s, err := admin.DecodeSchema(p.Schema)
	if err != nil {
		return nil, err
	}
	for _, t := range p.Tables {
		if of := tableOf(s, t.Name); of != nil {
			of.Splits = append(of.Splits, convert[string](t.Splits)...)
		}
	}
	return s, nil
}

// PerTable sums up the chunks of each table, in the order of Tables.
func (m *Manifest) PerTable() []Counts {
	at := map[string]int{}
	for i, t := range m.Tables {
		at[t.Name] = i
	}
	out := make([]Counts, len(m.Tables))
	for _, c := range m.Chunks {
		if i, ok := at[c.Table]; ok {
			out[i].Add(c.Counts)
		}
	}
	return out
}

// ReadManifest reads the manifest and checks it. ErrIncomplete: there is none. ErrDamaged: it is
// not what was written. percolator.ErrInvalidArgument: it is that of an export.
func ReadManifest(ctx context.Context, s Store) (*Manifest, error) {
	b, err := get(ctx, s, manifestName, maxSmallObject)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("backup: %w: no %s", ErrIncomplete, manifestName)
	}
	if err != nil {
		return nil, err
	}
	var export struct{ Parts []json.RawMessage }
	if json.Unmarshal(b, &export) == nil && export.Parts != nil {
		return nil, fmt.Errorf("backup: %w: the place holds an export, not a backup: percolator import TABLE --from reads it", percolator.ErrInvalidArgument)
	}
	want, err := get(ctx, s, checksumName, 1024)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if sum := sha256.Sum256(b); err != nil || !strings.HasPrefix(string(want), hex.EncodeToString(sum[:])) {
		return nil, fmt.Errorf("backup: %s: %w: it is not what %s says", manifestName, ErrDamaged, checksumName)
	}
	m := new(Manifest)
	if err := decode(manifestName, b, m, &m.Plan); err != nil {
		return nil, err
	}
	return m, nil
}

// decode decodes an object with a plan in it, and checks the plan's format.
func decode(name string, b []byte, v any, p *Plan) error {
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("backup: %s: %w: %w", name, ErrDamaged, err)
	}
	if p.Format != Format {
		return fmt.Errorf("backup: the format is version %d; this program reads version %d", p.Format, Format)
	}
	// It is part of names of objects, and is shown to operators.
	if err := uuid.Validate(p.ID); err != nil {
		return fmt.Errorf("backup: %s: %w: the ID %.64q is no UUID", name, ErrDamaged, p.ID)
	}
	return nil
}

// readPlan returns nil if no backup was started.
func readPlan(ctx context.Context, s Store) (*storedPlan, error) {
	b, err := get(ctx, s, planName, maxSmallObject)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	p := new(storedPlan)
	if err := decode(planName, b, p, &p.Plan); err != nil {
		return nil, err
	}
	return p, nil
}

func putJSON(ctx context.Context, s Store, name string, v any) error {
	b, err := encode(v)
	if err != nil {
		return err
	}
	return put(ctx, s, name, b)
}

func encode(v any) ([]byte, error) {
	b, err := json.MarshalIndent(v, "", " ")
	return append(b, '\n'), err
}

// writeManifest stores the checksum first: the manifest is what makes the backup complete.
func writeManifest(ctx context.Context, s Store, m *Manifest) error {
	b, err := encode(m)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(b)
	if err := put(ctx, s, checksumName, fmt.Appendf(nil, "%s  %s\n", hex.EncodeToString(sum[:]), manifestName)); err != nil {
		return err
	}
	return put(ctx, s, manifestName, b)
}
