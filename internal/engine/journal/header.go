package journal

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/gopercolator/percolator/internal/engine/layout"
)

// maxHeaderBytes bounds a header: a session has at most 64 bytes.
const maxHeaderBytes = 1 << 10

// header is the first row of a stream.
type header struct {
	Session string    `json:",omitempty"` // of its client; "": the oracle keeps none
	Opened  time.Time // by the client's clock, for people
}

func encodeHeader(session string, opened time.Time) []byte {
	return layout.JSON(header{session, opened.UTC()})
}

func decodeHeader(b []byte) (h header, err error) {
	if len(b) > maxHeaderBytes || json.Unmarshal(b, &h) != nil {
		return header{}, errors.New("the header of a stream that cannot be decoded")
	}
	return h, nil
}
