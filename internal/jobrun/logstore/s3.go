package logstore

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"regexp"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/skald-saga/skald/internal/failpoint"
)

const (
	defaultIOTimeout = 30 * time.Second
	dialTimeout      = 10 * time.Second
	attempts         = 3 // per request, if the server fails or is unavailable
)

// bucket stores objects under a prefix of a bucket.
type bucket struct {
	client       minio.Core
	transport    *http.Transport
	name, prefix string
	tempDir      string
}

var bucketName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)

func openS3(u *url.URL, o Options) (*bucket, error) {
	if u.User != nil {
		return nil, errors.New("credentials must not be in the URL: set them separately")
	}
	prefix := strings.Trim(u.Path, "/")
	if !bucketName.MatchString(u.Host) || u.Fragment != "" || prefix != "" && "/"+prefix != path.Clean("/"+prefix) {
		return nil, errors.New("an S3 URL must have the form s3://bucket/prefix")
	}
	host, settings, err := readS3Query(u.Query())
	if err != nil {
		return nil, err
	}
	settings.Creds = credentials.NewStaticV4(o.AccessKey, o.SecretKey, "")
	if o.AccessKey == "" {
		settings.Creds = credentials.NewIAM("")
	}
	transport, err := minio.DefaultTransport(settings.Secure)
	if err != nil {
		return nil, err
	}
	silence := o.IOTimeout
	if silence <= 0 {
		silence = defaultIOTimeout
	}
	transport.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second}).DialContext(ctx, network, addr)
		return &deadlined{conn, silence}, err
	}
	settings.Transport, settings.MaxRetries = transport, attempts
	client, err := minio.New(host, &settings)
	if err != nil {
		return nil, err
	}
	return &bucket{minio.Core{Client: client}, transport, u.Host, prefix, o.TempDir}, nil
}

// readS3Query reads endpoint, region and path_style, and rejects other parameters.
func readS3Query(query url.Values) (host string, o minio.Options, err error) {
	for name, values := range query {
		if len(values) != 1 {
			return "", o, fmt.Errorf("%s is given more than once", name)
		}
	}
	host, o.Secure, o.Region = "s3.amazonaws.com", true, query.Get("region")
	if endpoint := query.Get("endpoint"); endpoint != "" {
		e, err := url.Parse(endpoint)
		if err != nil || e.Scheme != "http" && e.Scheme != "https" || e.Host == "" || strings.Trim(e.Path, "/") != "" ||
			e.RawQuery != "" || e.User != nil {
			return "", o, errors.New("endpoint must be http:// or https:// and a host, optionally with a port")
		}
		host, o.Secure = e.Host, e.Scheme == "https"
		if o.Region == "" {
			o.Region = "us-east-1" // a value that servers without regions expect
		}
	}
	if o.Region == "" {
		return "", o, errors.New("region is required without endpoint")
	}
	switch query.Get("path_style") {
	case "":
	case "true":
		o.BucketLookup = minio.BucketLookupPath
	case "false":
		o.BucketLookup = minio.BucketLookupDNS
	default:
		return "", o, errors.New("path_style must be true or false")
	}
	for name := range query {
		if name != "endpoint" && name != "region" && name != "path_style" {
			return "", o, fmt.Errorf("unknown parameter %s", name)
		}
	}
	return host, o, nil
}

// deadlined sets deadlines on a connection, so that a silent peer ends a request even if the
// request's context is long-lived.
type deadlined struct {
	net.Conn
	silence time.Duration
}

func (c *deadlined) Read(p []byte) (int, error) {
	_ = c.SetReadDeadline(time.Now().Add(c.silence)) // on a closed connection, Read reports the error
	return c.Conn.Read(p)
}

func (c *deadlined) Write(p []byte) (int, error) {
	_ = c.SetWriteDeadline(time.Now().Add(c.silence))
	return c.Conn.Write(p)
}

func (b *bucket) key(ref string) string { return path.Join(b.prefix, ref) }

// put uploads an object in one request, which S3 makes visible completely or not at all. The
// signature covers the checksum, so the server verifies the checksum as well.
func (b *bucket) put(ctx context.Context, ref string, content *spool) error {
	if err := failpoint.Hit(failpoint.LogAfterWrite); err != nil {
		return err
	}
	sum := content.sum()
	_, err := b.client.PutObject(ctx, b.name, b.key(ref), content.reader(), content.size, "", hex.EncodeToString(sum[:]),
		minio.PutObjectOptions{ContentType: "application/gzip"})
	if err != nil {
		return fmt.Errorf("upload: %w", err)
	}
	return failpoint.Hit(failpoint.LogAfterRename)
}

func (b *bucket) open(ctx context.Context, ref string) (io.ReadCloser, error) {
	body, _, _, err := b.client.GetObject(ctx, b.name, b.key(ref), minio.GetObjectOptions{})
	if minio.ToErrorResponse(err).Code == minio.NoSuchKey {
		return nil, gone()
	}
	if err != nil {
		return nil, fmt.Errorf("open a stored log: %w", err)
	}
	return body, nil
}

func (b *bucket) remove(ctx context.Context, ref string) error {
	err := b.client.RemoveObject(ctx, b.name, b.key(ref), minio.RemoveObjectOptions{})
	if err != nil && minio.ToErrorResponse(err).Code != minio.NoSuchKey {
		return fmt.Errorf("delete a stored log: %w", err)
	}
	return nil
}

func (b *bucket) clear(ctx context.Context, prefix string) error {
	ctx, cancel := context.WithCancel(ctx) // stops the listing if a deletion fails
	defer cancel()
	of := minio.ListObjectsOptions{Prefix: b.key(prefix), Recursive: true}
	for object := range b.client.Client.ListObjects(ctx, b.name, of) {
		if object.Err != nil {
			return fmt.Errorf("look for stored logs: %w", object.Err)
		}
		err := b.client.RemoveObject(ctx, b.name, object.Key, minio.RemoveObjectOptions{})
		if err != nil && minio.ToErrorResponse(err).Code != minio.NoSuchKey {
			return fmt.Errorf("delete a stored log: %w", err)
		}
	}
	return nil
}

func (b *bucket) temp() (*os.File, error) {
	file, err := os.CreateTemp(b.tempDir, "skald-log-")
	if err == nil {
		_ = os.Remove(file.Name())
	}
	return file, err
}

func (b *bucket) close() error {
	b.transport.CloseIdleConnections()
	return nil
}

// Options configures a store. All fields are optional.
type Options struct {
	// AccessKey and SecretKey sign requests to S3. Without them, the role of the machine or pod is
	// used, as AWS provides it.
	AccessKey, SecretKey string
	// TempDir is where uploads of more than 4 MB (compressed) are buffered, for S3 only;
	// "": the system's.
	TempDir string
	// IOTimeout is how long S3 may be silent during a request; 0 means 30 s. It does not bound the
	// whole request; the caller's context does.
	IOTimeout time.Duration
}
