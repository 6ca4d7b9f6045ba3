// Returns what is wrong with how a page looks: text without contrast, and boxes that are outside of the window.
(() => {
  const channel = (value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  const parsed = (color) => {
    const parts = (color.match(/[\d.]+/g) || [0, 0, 0, 0]).map(Number);
    return { rgb: parts.slice(0, 3), alpha: parts.length > 3 ? parts[3] : 1 };
  };
  const light = (rgb) => {
    const [r, g, b] = rgb.map((value) => channel(value / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (one, other) => {
    const [low, high] = [light(one), light(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  const behind = (node) => {
    for (let one = node; one; one = one.parentElement) {
      const { rgb, alpha } = parsed(getComputedStyle(one).backgroundColor);
      if (alpha > 0) return rgb;
    }
    return [255, 255, 255];
  };
  const hasText = (node) => [...node.childNodes].some((one) => one.nodeType === 3 && one.textContent.trim());
  const pale = [], outside = [];
  let texts = 0;
  for (const node of document.body.querySelectorAll("*")) {
    const box = node.getBoundingClientRect();
    if (!box.width || !box.height) continue;
    if (box.right > innerWidth + 1 || box.left < -1) outside.push(`${node.tagName} ${box.left} ${box.right}`);
    if (!hasText(node) || node.tagName === "title") continue;
    const style = getComputedStyle(node);
    const svg = node instanceof SVGElement;
    const backgrounds = [behind(node)];
    if (style.backgroundImage !== "none") {
      backgrounds.push(parsed(getComputedStyle(document.documentElement).getPropertyValue("--bar")).rgb);
    }
    texts += 1;
    for (const background of backgrounds) {
      const ratio = contrast(parsed(svg ? style.fill : style.color).rgb, background);
      if (ratio < 4.5) pale.push(`${node.tagName}.${node.getAttribute("class")} ${ratio.toFixed(2)} ${node.textContent.slice(0, 30)}`);
    }
  }
  const root = document.documentElement;
  return { pale, outside, texts, overflow: root.scrollWidth - innerWidth, height: root.scrollHeight, width: innerWidth };
})()
