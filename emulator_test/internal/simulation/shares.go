package simulation

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/meta"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator/model"
)

// shares judges J10 by what collectors send: each row of the journal with entries that they erase
// was in a share before. What was in none was not resolved, and does harm only if it comes between
// two requests of a collector, with a lock.
type shares struct {
	mu   sync.Mutex
	rows map[string]bool // those of the journal that were in a share
}

// As package gc lays shares out, and package journal its keys.
const (
	shareColumns = "share-"
	noEntries    = 0x40 // and above: the first byte of rows without entries
)

// applied takes notice of changes that the store has applied.
func (s *shares) applied(table, row string, changes []store.Change) {
	if table != model.MetaTable || row != meta.CollectorRow {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range changes {
		c := &changes[i]
		if c.Kind != store.PutVersion || c.Family != layout.MetaFamily || !strings.HasPrefix(c.Column, shareColumns) {
			continue
		}
		var share struct {
			Holder  string
			Streams []struct {
				ID   []byte
				Rows []uint64 // the first and the last of each range
			}
		}
		// What has a holder is what is left of one that had none.
		if json.Unmarshal(c.Value, &share) != nil || share.Holder != "" {
			continue
		}
		if s.rows == nil {
			s.rows = map[string]bool{}
		}
		for _, st := range share.Streams {
			for i := 0; i+1 < len(st.Rows); i += 2 {
				for seq := st.Rows[i]; seq <= st.Rows[i+1]; seq++ {
					s.rows[string(binary.BigEndian.AppendUint64(st.ID[:len(st.ID):len(st.ID)], seq))] = true
				}
			}
		}
	}
}

// sent takes notice of changes that a process sends, and returns what is wrong with them.
func (s *shares) sent(process, table, row string, changes []store.Change) (wrong []string) {
	if table != model.JournalTable || row[0] >= noEntries {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range changes {
		if changes[i].Kind == store.EraseWholeRow && !s.rows[row] {
			wrong = append(wrong, fmt.Sprintf("%s erases the row %x of the journal, which was in no share (J10)", process, row))
		}
	}
	return wrong
}
