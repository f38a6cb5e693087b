package export

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/backup"
)

// manifestVersion is the only one that is read.
const manifestVersion = 2

// maxManifestBytes bounds a manifest that is read: it has some 200 bytes for each file, and keys.
const maxManifestBytes = 1 << 30

// ReadManifest reads the manifest of a complete export, all of whose files are there. id tells the
// export from all others, wherever it lies.
//
// Errors: percolator.ErrInvalidArgument for a place without a manifest, or with another one;
// backup.ErrDamaged; those of the place.
func ReadManifest(ctx context.Context, from backup.Store) (m *Manifest, id string, err error) {
	b, err := get(ctx, from, manifestName, maxManifestBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", fmt.Errorf("%w: there is no %s, so this is no export, or one that was interrupted", percolator.ErrInvalidArgument, manifestName)
	}
	if err != nil {
		return nil, "", err
	}
	m = new(Manifest)
	var other struct{ Chunks []json.RawMessage }
	if json.Unmarshal(b, &other) == nil && other.Chunks != nil {
		return nil, "", fmt.Errorf("%w: the place holds a backup, not an export: percolator restore reads it", percolator.ErrInvalidArgument)
	}
	if json.Unmarshal(b, m) != nil || m.Version != manifestVersion || !slices.Contains(Formats, m.Format) {
		return nil, "", fmt.Errorf("%w: %s is not that of an export by this version", percolator.ErrInvalidArgument, manifestName)
	}
	names, err := from.List(ctx, "part-")
	if err != nil {
		return nil, "", err
	}
	slices.Sort(names)
	var sum Counts
	for _, p := range m.Parts {
		if _, there := slices.BinarySearch(names, p.Name); !there {
			return nil, "", fmt.Errorf("%s: %w: the manifest names it, and it is missing", p.Name, backup.ErrDamaged)
		}
		sum.Rows += p.Rows
		sum.Values += p.Values
	}
	if sum.Rows != m.Total.Rows || sum.Values != m.Total.Values {
		return nil, "", fmt.Errorf("%s: %w: its files have %d rows with %d values, its total %d with %d", manifestName, backup.ErrDamaged, sum.Rows, sum.Values, m.Total.Rows, m.Total.Values)
	}
	id = fmt.Sprintf("export of table %s at %s, manifest %x", m.Table, m.SnapshotTime.UTC().Format(time.RFC3339Nano), sha256.Sum256(b))
	return m, id, nil
}
