enum Kind { A = 1, B }
class Box<T> { constructor(private readonly value: T) {} get it(): T { return this.value!; } }
const box = new Box(await pml.call("weather:now", { city: "Paris" }) satisfies unknown);
label: do { if (box?.it) continue label; } while (0);
export default box.it;
