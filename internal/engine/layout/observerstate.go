package layout

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/percolator/model"
)

const (
	parkPrefix = Reserved + "park\x00"
	donePrefix = Reserved + "done\x00"
)

// StateColumn is the column of an observer state in the notify family.
func StateColumn(s model.ObserverState) string {
	prefix := parkPrefix
	if s.Done {
		prefix = donePrefix
	}
	return prefix + s.Observer + "\x00" + s.Cell.Column
}

// ObserverStateColumn is the inverse of StateColumn.
func ObserverStateColumn(column string) (of, observer string, done, ok bool) {
	rest, ok := strings.CutPrefix(column, parkPrefix)
	if !ok {
		if rest, done = strings.CutPrefix(column, donePrefix); !done {
			return "", "", false, false
		}
	}
	observer, of, ok = strings.Cut(rest, "\x00")
	return of, observer, done, ok && observer != "" && of != ""
}

// stateCell is the stored form.
type stateCell struct {
	Attempts  int       `json:",omitempty"`
	Reason    string    `json:",omitempty"`
	Since     time.Time `json:",omitzero"`
	Observers [][]byte  `json:",omitempty"` // JSON would damage a name that is not text
}

// EncodeObserverState is the stored value; an observer that is done has none.
func EncodeObserverState(s model.ObserverState) []byte {
	if s.Done {
		return nil
	}
	st := stateCell{Attempts: s.Attempts, Since: s.Since,
		// The cut keeps characters whole.
		Reason:    strings.ToValidUTF8(s.Reason[:min(len(s.Reason), model.MaxParkedReason)], ""),
		Observers: ordered.Map(s.Observers, func(name string) []byte { return []byte(name) })}
	return JSON(st)
}

// DecodeObserverState fills in what the stored value says.
func DecodeObserverState(s *model.ObserverState, b []byte) error {
	if s.Done {
		return nil
	}
	var st stateCell
	if err := json.Unmarshal(b, &st); err != nil {
		return fmt.Errorf("an observer state of %d bytes that cannot be decoded", len(b))
	}
	s.Attempts, s.Reason, s.Since = st.Attempts, st.Reason, st.Since
	s.Observers = ordered.Map(st.Observers, func(name []byte) string { return string(name) })
	return nil
}
