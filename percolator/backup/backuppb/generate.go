// Package backuppb has the messages of a chunk, generated from chunk.proto.
package backuppb

//go:generate -command pb protoc -I ../../.. --go_out=../../.. --go_opt=paths=source_relative
//go:generate pb percolator/backup/backuppb/chunk.proto
