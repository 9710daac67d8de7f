// The search runs in a worker, which browsers refuse to pages opened from a folder (file://).
// There, a hidden frame takes the worker's place: same messages, same script.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const inside = frame.contentWindow;
      this.inside = inside;
      this.ready = new Promise((loaded) => {
        inside.document.open();
        inside.document.close();
        inside.postMessage = (data) => this.deliver(data);
        inside.importScripts = (...scripts) => Promise.all(scripts.map((one) => load(inside, one)));
        load(inside, address).then(loaded);
      });
    }
    deliver(data) {
      const event = new MessageEvent("message", { data });
      this.dispatchEvent(event);
      if (this.onmessage) this.onmessage(event);
    }
    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data })));
    }
    terminate() {
      this.inside.frameElement.remove();
    }
  };
  const load = (inside, address) => new Promise((done) => {
    const script = inside.document.createElement("script");
    script.src = new URL(address, location.href);
    script.onload = done;
    inside.document.documentElement.append(script);
  });
}
