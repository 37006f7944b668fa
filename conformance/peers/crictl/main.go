// Command crictl has the two commands that kind runs on a node: `images` lists the images of the container runtime,
// `inspecti` resolves the name of an image. It replaces the full crictl, which cannot be built from a module.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const socket = "unix:///run/containerd/containerd.sock"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "crictl:", err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	connection, err := grpc.NewClient(socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	images := cri.NewImageServiceClient(connection)
	switch {
	case len(arguments) == 1 && arguments[0] == "images":
		return list(ctx, images)
	case len(arguments) == 2 && arguments[0] == "inspecti":
		return inspect(ctx, images, arguments[1])
	default:
		return fmt.Errorf("%q: unknown command; write `images` or `inspecti NAME`", strings.Join(arguments, " "))
	}
}

func list(ctx context.Context, images cri.ImageServiceClient) error {
	answer, err := images.ListImages(ctx, &cri.ListImagesRequest{})
	if err != nil {
		return err
	}
	for _, image := range answer.Images {
		fmt.Println(strings.Join(image.RepoTags, ","), image.Id, image.Size)
	}
	return nil
}

func inspect(ctx context.Context, images cri.ImageServiceClient, name string) error {
	answer, err := images.ImageStatus(ctx, &cri.ImageStatusRequest{Image: &cri.ImageSpec{Image: name}})
	if err != nil {
		return err
	}
	if answer.Image == nil {
		return fmt.Errorf("no such image: %s", name)
	}
	status := map[string]any{
		"id": answer.Image.Id, "repoTags": answer.Image.RepoTags, "repoDigests": answer.Image.RepoDigests,
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{"status": status})
}
