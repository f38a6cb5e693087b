package export

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"slices"

	"github.com/google/uuid"

	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/internal/text"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/backup"
	"github.com/gopercolator/percolator/percolator/model"
)

// A place holds an export and nothing else. First of all Run stores a marker, export-ID.json; the
// names of its files have its ID, and the manifest comes last. So what is deleted is always of an
// export: a file of exactly that form, whose marker is there, and goes after it. The export itself
// may still run, here or elsewhere. It does not while its hold is gone from the instance that the
// marker names: then Run deletes its files before it begins, else once its own manifest is stored.
// Of two exports into one place the first that stores a manifest is complete, as a manifest is
// only created, never replaced; the other deletes its own files. In a place that cannot create for
// certain (backup.Creator) the last one may be complete instead, so all but files of ended exports
// stay there.
//
// Rejected: one name for the files of all exports. Two of them mix two snapshots in one place, and
// a check at the end can be late.

// marker says whose files have its ID in their names.
type marker struct {
	Project  string `json:"project"`
	Instance string `json:"instance"`
	Table    string `json:"table"`
	Hold     string `json:"hold"` // ID of the hold that the export keeps until it ends
}

const maxMarkerBytes = 64 << 10

var (
	markerForm = regexp.MustCompile(`^export-([0-9a-f]{12})\.json$`)
	partForm   = regexp.MustCompile(`^part-([0-9a-f]{12})-[0-9]{5,}-[0-9]{5,}\.(jsonl|parquet|csv)$`)
)

// newID makes the ID of an export.
func newID() string { u := uuid.New(); return fmt.Sprintf("%x", u[:6]) }

func markerName(id string) string { return "export-" + id + ".json" }

// begin takes the place: it refuses one with anything but leftovers of exports, deletes those of
// exports that have ended, and stores the marker.
func (x *run) begin(ctx context.Context, h model.Hold) error {
	names, err := x.to.List(ctx, "")
	if slices.Contains(names, manifestName) {
		if _, _, err = ReadManifest(ctx, x.to); err == nil {
			err = ErrComplete
		}
	}
	var left leftovers
	if err == nil {
		left, err = leftBehind(names)
	}
	if err == nil {
		left, err = left.ended(ctx, x.client, x.to)
	}
	if err == nil {
		err = left.delete(ctx, x.to)
	}
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	b, err := json.Marshal(markerOf(x.client, x.o.Table, h.ID))
	if err == nil {
		err = x.to.Put(ctx, markerName(x.id), append(b, '\n'))
	}
	if err != nil {
		return fmt.Errorf("export: writing %s: %w", markerName(x.id), err)
	}
	return nil
}

// complete stores the manifest, unless there is one, and deletes what no manifest names.
func (x *run) complete(ctx context.Context, m *Manifest) error {
	b, err := json.MarshalIndent(m, "", " ")
	if err == nil {
		err = create(ctx, x.to, manifestName, append(b, '\n'))
	}
	if errors.Is(err, fs.ErrExist) { // perhaps by a request of ours whose answer was lost
		var stored *Manifest
		if stored, _, err = ReadManifest(ctx, x.to); err == nil && stored.ID != x.id {
			own := leftovers{x.id: ordered.Map(m.Parts, func(p Part) string { return p.Name })}
			return errors.Join(fmt.Errorf("export: %w, by another process", ErrComplete), own.delete(ctx, x.to))
		}
	}
	if err != nil {
		return fmt.Errorf("export: writing %s: %w", manifestName, err)
	}
	names, err := x.to.List(ctx, "")
	var left leftovers
	if err == nil {
		left, err = leftBehind(names)
	}
	if err == nil {
		delete(left, x.id)
		if _, certain := x.to.(backup.Creator); !certain { // another manifest may come after this one
			left, err = left.ended(ctx, x.client, x.to)
		}
	}
	if err == nil {
		err = left.delete(ctx, x.to)
	}
	if err != nil {
		return fmt.Errorf("export: it is complete, and what former ones have left is still there: %w", err)
	}
	_ = x.to.Delete(ctx, markerName(x.id)) // a place may keep what it has; beside a manifest it means nothing
	return nil
}

// leftovers are the files of exports in a place, by the IDs of those whose markers are there.
type leftovers map[string][]string

// leftBehind finds them among the names of a place, and refuses one that holds anything else but a
// manifest.
func leftBehind(names []string) (leftovers, error) {
	left := leftovers{}
	for _, name := range names {
		if m := markerForm.FindStringSubmatch(name); m != nil {
			left[m[1]] = nil
		}
	}
	for _, name := range names {
		if name == manifestName || markerForm.MatchString(name) {
			continue
		}
		m := partForm.FindStringSubmatch(name)
		if m == nil {
			return nil, strange(name)
		}
		files, marked := left[m[1]]
		if !marked {
			return nil, strange(name)
		}
		left[m[1]] = append(files, name)
	}
	return left, nil
}

func strange(name string) error {
	return fmt.Errorf("%w: the place holds %s, which is of no export that was interrupted; an export takes a place of its own", percolator.ErrInvalidArgument, text.Line(name))
}

// ended takes those from the leftovers whose exports have ended for certain.
func (left leftovers) ended(ctx context.Context, c *percolator.Client, to backup.Store) (leftovers, error) {
	if len(left) == 0 {
		return nil, nil
	}
	holds, err := admin.New(c).Holds(ctx)
	if err != nil {
		return nil, err
	}
	held := map[string]bool{}
	for _, h := range holds {
		held[h.ID] = true
	}
	ended := leftovers{}
	for id, files := range left {
		m, err := readMarker(ctx, to, id)
		if err != nil {
			return nil, err
		}
		if m == markerOf(c, m.Table, m.Hold) && m.Hold != "" && !held[m.Hold] {
			ended[id] = files
		}
	}
	return ended, nil
}

// delete deletes the files, and the markers after them.
func (left leftovers) delete(ctx context.Context, to backup.Store) error {
	for id, files := range left {
		for _, name := range append(files, markerName(id)) {
			if err := to.Delete(ctx, name); err != nil {
				return fmt.Errorf("export: deleting %s: %w", name, err)
			}
		}
	}
	return nil
}

func markerOf(c *percolator.Client, table, hold string) marker {
	cfg := c.Engine().Config
	return marker{Project: cfg.Project, Instance: cfg.Instance, Table: table, Hold: hold}
}

func readMarker(ctx context.Context, from backup.Store, id string) (m marker, err error) {
	b, err := get(ctx, from, markerName(id), maxMarkerBytes)
	if err == nil && json.Unmarshal(b, &m) != nil {
		m = marker{} // of nothing that is known to have ended
	}
	return m, err
}

// create stores an object where there is none; fs.ErrExist: there is one. Only a place that is a
// backup.Creator tells for certain.
func create(ctx context.Context, to backup.Store, name string, data []byte) error {
	if c, ok := to.(backup.Creator); ok {
		return c.Create(ctx, name, data)
	}
	switch r, err := to.Get(ctx, name); {
	case err == nil:
		_ = r.Close()
		return fs.ErrExist
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return to.Put(ctx, name, data)
}

// get reads an object of at most limit bytes.
func get(ctx context.Context, from backup.Store, name string, limit int64) ([]byte, error) {
	r, err := from.Get(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	defer func() { _ = r.Close() }() // only read from
	b, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("%s: %w: it is longer than %d bytes", name, backup.ErrDamaged, limit)
	}
	return b, nil
}
