package gc

import (
	"slices"
	"testing"
)

// TestShareThatIsSavedBetweenStreams: a share whose first stream has nothing left can be read.
func TestShareThatIsSavedBetweenStreams(t *testing.T) {
	t.Parallel()
	id := make([]byte, 17)
	sh := share{Watermark: 5, Asked: 9, Streams: []streamRows{{ID: id, Rows: seqs{1, 3}.after(3)}, {ID: id, Rows: seqs{7, 7}}}}
	got, err := decodeShare(shareColumn(0), sh.encode())
	if err != nil || len(got.Streams) != 1 || !slices.Equal(got.Streams[0].Rows, seqs{7, 7}) || len(sh.Streams) != 2 {
		t.Errorf("%+v, %v", got, err)
	}
}
