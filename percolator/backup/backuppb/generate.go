// Package backuppb has the messages of a chunk, generated from chunk.proto.
package backuppb

//go:generate protoc -I ../../.. --go_out=../../.. --go_opt=paths=source_relative percolator/backup/backuppb/chunk.proto
