package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"strings"

	"gocloud.dev/blob"
	_ "gocloud.dev/blob/gcsblob" // gs://
	"gocloud.dev/gcerrors"

	"github.com/gopercolator/percolator/percolator/backup"
)

// Where backups are kept. Only Cloud Storage is linked besides directories: users of this program
// have Google's libraries already, while those of another provider would double what the program
// consists of. Its own tools copy a directory there.

// OpenPlace opens a directory, or a bucket by its URL: gs://BUCKET/PATH, with the query parameters
// of gocloud.dev/blob/gcsblob.
func OpenPlace(ctx context.Context, location string) (_ backup.Store, closeStore func(), err error) {
	if !strings.Contains(location, "://") {
		if location == "" {
			return nil, nil, Usagef("the name of the place is empty")
		}
		return backup.Dir(location), func() {}, nil
	}
	u, err := url.Parse(location)
	if err != nil {
		return nil, nil, Usagef("%s: %w", location, err)
	}
	switch {
	case strings.Contains(location, "#") || u.Scheme == "file" && u.RawQuery != "": // the path would end there
		return nil, nil, Usagef("%s: in the path of a URL, # is %%23 and ? is %%3F", location)
	case u.Scheme == "file" && (u.Host == "" || u.Host == "localhost") && u.Path != "":
		return backup.Dir(u.Path), func() {}, nil
	case u.Scheme != "gs" || u.Host == "":
		return nil, nil, Usagef("%s: neither a directory nor gs://BUCKET/PATH", location)
	}
	prefix := strings.Trim(u.Path, "/")
	u.Path = ""
	bucket, err := blob.OpenBucket(ctx, u.String())
	if err != nil {
		return nil, nil, fmt.Errorf("opening %s: %w", location, err)
	}
	if prefix != "" {
		bucket = blob.PrefixedBucket(bucket, prefix+"/")
	}
	return InBucket(bucket), func() { _ = bucket.Close() }, nil
}

// bucketStore is a backup.Store in a bucket. An object of Cloud Storage appears when all of it has
// been written, and is durable then.
type bucketStore struct{ bucket *blob.Bucket }

// InBucket keeps a backup in a bucket.
func InBucket(bucket *blob.Bucket) backup.Store { return bucketStore{bucket} }

// IsRemote reports whether reading from a place is a download.
func IsRemote(place backup.Store) bool {
	_, remote := place.(bucketStore)
	return remote
}

func (s bucketStore) Put(ctx context.Context, name string, data []byte) error {
	return s.bucket.WriteAll(ctx, name, data, &blob.WriterOptions{ContentType: "application/octet-stream"})
}

// Create implements backup.Creator.
func (s bucketStore) Create(ctx context.Context, name string, data []byte) error {
	err := s.bucket.WriteAll(ctx, name, data, &blob.WriterOptions{ContentType: "application/octet-stream", IfNotExist: true})
	if gcerrors.Code(err) == gcerrors.FailedPrecondition {
		return fmt.Errorf("%w: %w", fs.ErrExist, err)
	}
	return err
}

func (s bucketStore) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	r, err := s.bucket.NewReader(ctx, name, nil)
	if gcerrors.Code(err) == gcerrors.NotFound {
		return nil, fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

func (s bucketStore) List(ctx context.Context, prefix string) (names []string, err error) {
	for it := s.bucket.List(&blob.ListOptions{Prefix: prefix}); ; {
		object, err := it.Next(ctx)
		if errors.Is(err, io.EOF) {
			return names, nil
		}
		if err != nil {
			return nil, err
		}
		names = append(names, object.Key)
	}
}

func (s bucketStore) Delete(ctx context.Context, name string) error {
	if err := s.bucket.Delete(ctx, name); err != nil && gcerrors.Code(err) != gcerrors.NotFound {
		return err
	}
	return nil
}
